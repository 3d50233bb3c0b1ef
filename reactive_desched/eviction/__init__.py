"""Decisions to outcomes: execute evictions, and confirm those whose effect is unknown."""
