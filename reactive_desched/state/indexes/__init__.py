"""Derived state, kept per change: one file holds an index, its question and its change type."""
