"""Drives the wired application in a process of its own, and returns plain numbers."""
