"""Stops evictions when the cluster, or the findings in it, look wrong, or a person asks for it."""
