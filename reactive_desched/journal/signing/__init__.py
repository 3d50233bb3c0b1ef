"""Signed checkpoints of the journal."""
