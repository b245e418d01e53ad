"""Writes results: JSON, tables, figures and pages."""
