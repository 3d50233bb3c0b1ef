"""The collection of policies that people wrote, and how the SIG descheduler judged each.

It stands beside the repository; where it does not, the tests that use it are skipped and say so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = Path(__file__).parents[3] / "shared" / "policies-in-the-wild"

Judged = dict[str, Any]  # an entry of the collection's index


def collection() -> Iterator[Any]:
    """Yield the index's entries."""
    if not (FOLDER / "index.json").is_file():
        reason = f"there are no policies from the wild: looked for index.json in {FOLDER}"
        yield pytest.param({}, id="none", marks=pytest.mark.skip(reason=reason))
        return
    for entry in json.loads((FOLDER / "index.json").read_bytes()):
        yield pytest.param(entry, id=entry["file"])


def runs_upstream(entry: Judged) -> bool:
    """Say whether a release runs it; one that leaves out a profile does so in name only."""
    verdicts = entry.get("verdict", {}).values()
    return any(each["accepted"] and not each.get("profiles_left_out") for each in verdicts)
