"""The command line on a disk that fails as a file says at that moment.

Run as a program, it takes the arguments of `reactive-desched`; the variable FAILING_DISK names the
file. That holds nothing, or `slow SECONDS`, or `hang` for as long as it does, or the name of an
error and how many bytes are written before it: `ENOSPC 300`.
"""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Final

from reactive_desched.cli import main
from reactive_desched.journal.disk import Disk

__all__ = ["VARIABLE"]

VARIABLE: Final = "FAILING_DISK"


def install_faults(orders: Path) -> None:
    """Have the journal's disk do as the file says, in this process."""
    append = Disk.append

    def failing(self: Disk, descriptor: int, data: bytes) -> None:
        order, _, number = orders.read_text(encoding="utf-8").strip().partition(" ")
        if order == "hang":
            while orders.read_text(encoding="utf-8"):
                time.sleep(0.05)
            order = ""
        if order in ("", "slow"):
            append(self, descriptor, data)
            time.sleep(float(number or 0))
            return
        code = int(getattr(errno, order))
        os.write(descriptor, data[: int(number or 0)])
        raise OSError(code, os.strerror(code))

    setattr(Disk, "append", failing)  # noqa: B010 -- a plain assignment is one that mypy refuses


if __name__ == "__main__":
    install_faults(Path(os.environ[VARIABLE]))
    sys.exit(main())
