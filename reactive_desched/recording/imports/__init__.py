"""Recordings of other programs, read as far as they reach."""
