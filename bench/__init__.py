"""Measures the real code against a load server, beside the least program that does the same."""
