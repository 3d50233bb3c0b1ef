"""Runs the controller of this version over a recording, and compares it with the journal."""
