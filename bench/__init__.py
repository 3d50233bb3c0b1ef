"""Measures the real code against a load server, because a goal nobody measures is a wish."""
