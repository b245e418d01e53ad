"""Simulates patients, photos and a database like GMDB."""
