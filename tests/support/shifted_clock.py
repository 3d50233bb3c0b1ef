"""The command line with a time of day that is as wrong as a file says at that moment.

Run as a program, it takes the arguments of `reactive-desched`; the variable SHIFTED_CLOCK names the
file, which holds seconds to add, or nothing. The journal's folder is tidied all the time.
SHIFTED_BOOT names the boot of the machine, in place of its own name.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from reactive_desched.app import recording
from reactive_desched.cli import main
from reactive_desched.journal import clocks
from reactive_desched.journal.upkeep.retention_worker import RetentionWorker

__all__ = ["BOOT_VARIABLE", "VARIABLE"]

VARIABLE: Final = "SHIFTED_CLOCK"
BOOT_VARIABLE: Final = "SHIFTED_BOOT"

_TIDY_EVERY_S: Final = 0.1


def install_clock_shift(orders: Path) -> None:
    """Have the time of day be off by what the file says, in this process.

    Once it is called: what is imported later sees nothing else.
    """
    right, run = time.time, RetentionWorker.run

    def shifted() -> float:
        return right() + float(orders.read_text(encoding="utf-8") or 0)

    def shifted_utc() -> datetime:
        return datetime.fromtimestamp(shifted(), UTC)

    async def often(keeper: RetentionWorker) -> None:
        await run(keeper, _TIDY_EVERY_S)

    # plain assignments are ones that mypy refuses
    setattr(time, "time", shifted)  # noqa: B010 -- as above
    for user in (clocks, recording):  # which was imported before
        setattr(user, "utc_now", shifted_utc)  # noqa: B010 -- as above
    setattr(RetentionWorker, "run", often)  # noqa: B010 -- as above
    if boot_id := os.environ.get(BOOT_VARIABLE):
        setattr(clocks, "read_boot_id", lambda: boot_id)  # noqa: B010 -- as above


if __name__ == "__main__":
    install_clock_shift(Path(os.environ[VARIABLE]))
    sys.exit(main())
