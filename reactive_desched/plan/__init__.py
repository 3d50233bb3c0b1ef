"""The `plan` command: what would be evicted, from files or from a live cluster."""
