"""Retention, compression and size limits of the journal's directory."""
