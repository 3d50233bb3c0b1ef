"""What was recorded of the SIG descheduler and of koordinator, and stands beside the repository.

A worker of the tests collects all cases and runs a few of them: so a case is a slice of its file
until a test reads it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Raw, Struct

from tests.support.loaded_module import load_module

__all__ = ["FOLDER", "Case", "RecordedCase", "case_parameters", "check", "read_cases", "write_case"]

FOLDER = Path(__file__).parents[3] / "shared" / "conformance"

Case = dict[str, Any]  # a recording, as its JSON line has it, with its objects


class _Line(Struct):
    """What a line says of its case, whose objects an earlier line may have."""

    name: str
    expect: Mapping[str, Any]
    objects: Raw = Raw()
    objects_of: str = ""


class RecordedCase(NamedTuple):
    """A case that is not read yet."""

    name: str
    expects_error: bool
    line: bytes
    objects: bytes

    def read(self) -> Case:
        """Return the recording as `check.py` reads it."""
        case: Case = msgspec.json.decode(self.line)
        return case if "objects" in case else {**case, "objects": msgspec.json.decode(self.objects)}


@cache
def check() -> ModuleType:
    """Load what compares an answer with a recording, from beside the recordings."""
    return load_module("conformance_check", FOLDER / "check.py")


@cache
def read_cases(path: Path) -> Sequence[RecordedCase]:
    """Return the cases of a file, or of all files of a folder."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found: list[RecordedCase] = []
    decoder = msgspec.json.Decoder(_Line)
    for file in files:
        clusters: dict[str, bytes] = {}
        for text in filter(bytes.strip, file.read_bytes().splitlines()):
            line = decoder.decode(text)
            if objects := bytes(line.objects):
                clusters[line.name] = objects
            else:
                objects = clusters[line.objects_of]
            found.append(RecordedCase(line.name, "error" in line.expect, text, objects))
    return tuple(found)


def case_parameters(path: Path, *more: object) -> list[Any]:
    """Return a parameter for each case, with more after it; without any a skipped one."""
    if not path.exists():
        skipped = pytest.mark.skip(reason=f"there are no recordings at {path}")
        return [pytest.param(None, *more, id="none", marks=skipped)]
    return [pytest.param(case, *more, id=case.name) for case in read_cases(path)]


def write_case(case: RecordedCase, folder: Path) -> dict[str, str]:
    """Write cluster and policy of a case into a folder, and return what `check.py` returns then.

    `check.py` takes longer to format the objects than `plan` to decide about them.
    """
    its = msgspec.json.decode(case.line, type=_Written)
    cluster, policy = folder / "cluster.json", folder / "policy.yaml"
    head = b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":'
    cluster.write_bytes(head + case.objects + b"}")
    policy.write_text(its.policy)
    return {
        "cluster": str(cluster),
        "policy": str(policy),
        "now": its.now,
        "passes": str(its.passes),
    }


class _Written(Struct):
    """What is written of a case, beside its objects."""

    policy: str
    now: str
    passes: int = 1
