"""What became of evictions: replacements are followed, limited and remembered."""
