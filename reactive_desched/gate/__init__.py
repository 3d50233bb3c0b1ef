"""Findings to decisions: everything that may keep a pod where it is."""
