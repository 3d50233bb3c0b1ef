"""What is told beside the output, so that whoever reads that by program is not disturbed."""

import sys


def print_warning(text: str) -> None:
    """Tell something on standard error, at once."""
    sys.stderr.write(f"reactive-desched: {text}\n")
    sys.stderr.flush()
