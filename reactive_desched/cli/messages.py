"""Warnings on standard error, so that programs can read standard output."""

import sys


def print_warning(text: str) -> None:
    """Print a warning on standard error, at once."""
    sys.stderr.write(f"reactive-desched: {text}\n")
    sys.stderr.flush()
