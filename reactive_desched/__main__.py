"""`python -m reactive_desched` is the same as `reactive-desched`."""

import sys

INTERRUPTED = 130
"""As a shell counts it: ended by SIGINT."""


def main() -> int:
    """Run one command and return its exit status; interrupted, end quietly, even while loading."""
    try:
        from reactive_desched.cli import main as command

        return command()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
