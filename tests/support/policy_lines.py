"""Messages about policies without the codes of their rules, which have tests of their own."""

import re
from typing import Final

__all__ = ["without_codes"]

_CODE: Final = re.compile(r" \[RD[0-9]{3}\]$", re.MULTILINE)


def without_codes(said: object) -> list[str]:
    """Return the lines of what was said, each without the code at its end."""
    return _CODE.sub("", str(said)).splitlines()
