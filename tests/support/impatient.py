"""The command line that waits two seconds for an API server that does not serve, instead of 45.

Run as a program, it takes the arguments of `reactive-desched`.
"""

import sys
from typing import Final

from reactive_desched.cli import main
from reactive_desched.kube.client import patience

_PATIENCE_S: Final = 2.0

if __name__ == "__main__":
    # a plain assignment is one that mypy refuses
    setattr(patience, "PATIENCE_S", _PATIENCE_S)  # noqa: B010 -- as above
    sys.exit(main())
