"""Follows the replacements of evicted pods, limits them and remembers how moves ended."""
