"""`python -m reactive_desched` is the same as `reactive-desched`."""

import gc
import os
import sys
from typing import Final

INTERRUPTED = 130
"""As a shell counts it: ended by SIGINT."""

_LOADING_THRESHOLD: Final = 200_000
"""New objects before a collection: more than loading makes. They stay, so at the default of 700 the
collector walks them again and again, a fifth of the start."""


def main() -> int:
    """Run one command and return its exit status; interrupted, end quietly, even while loading."""
    gc.set_threshold(_LOADING_THRESHOLD)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else it reads every package
    try:
        from reactive_desched.cli import main as command

        return command()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        gc.freeze()  # the process ends: the interpreter's last collections need not walk anything


if __name__ == "__main__":
    sys.exit(main())
