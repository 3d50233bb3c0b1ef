"""Explains why a pod was moved, waits, or stays: the answers of every plugin and every gate."""
