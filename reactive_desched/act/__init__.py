"""Decisions to outcomes: one file per way to move a pod."""
