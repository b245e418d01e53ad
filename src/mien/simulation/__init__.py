"""Patients who never existed."""
