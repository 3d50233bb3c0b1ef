"""Errors that others hide: relations between values, in a part of a file with another mistake.

A model checks how its values go together once each is right by itself. So what is wrong is left
out, and the rest is read again. That makes errors of its own, about what is missing now, or about
the default of what was left out: those that other values in its place end do not count.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from reactive_desched.api.args import FieldErrors, Path

MAX_READINGS: Final = 200
"""So often a part is read again at most; the rest shows when these errors are corrected."""

_OTHER_VALUES: Final[tuple[object, ...]] = (0, 1, 10**9, "a", "1s", "10000h", True, False, ["a"])
"""Values of every type, small and large; an empty list would count as left out."""

ErrorDetail = Mapping[str, Any]  # Any: pydantic's error details are not typed further
Read = Callable[[object], object]
"""Validates data, and raises pydantic's error."""


def error_details(error: ValidationError) -> list[ErrorDetail]:
    """Return what is wrong, one by one."""
    return [
        each
        for detail in error.errors(include_url=False, include_input=False)
        for each in _one_by_one(detail)
    ]


def hidden_errors(read: Read, data: object, known: list[ErrorDetail]) -> Iterator[ErrorDetail]:
    """Yield the errors that the known ones hide, whatever is right where these are."""
    reader, rest, found = _Reader(read), deepcopy(data), known
    seen = {_key(each) for each in known}
    wrong: list[tuple[Path, ErrorDetail]] = []
    while found:
        for detail in found:
            place = _key_at(_place(rest, detail))
            if place and _is_there(rest, place):
                del _at(rest, place[:-1])[place[-1]]
                wrong.append((place, detail))
        found = [each for each in reader.errors(rest) if _key(each) not in seen]
        wrong = [each for each in wrong if _is_there(rest, each[0][:-1])]
        for place, detail in wrong if found else ():
            beside = _errors_beside(reader, rest, place, detail)
            found = [each for each in found if _key(each) in beside]
        seen.update(map(_key, found))
        yield from found


def _errors_beside(
    reader: "_Reader", rest: object, place: Path, detail: ErrorDetail
) -> frozenset[object]:
    """Return the errors that are there with each other value that is right at a place."""
    choices = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
    common: frozenset[object] | None = None
    for value in (*_OTHER_VALUES, *choices):
        trial = deepcopy(rest)
        _at(trial, place[:-1])[place[-1]] = value
        errors = reader.errors(trial)
        if reader.is_spent:
            return frozenset()
        if not any(_refuses(each, trial, place) for each in errors):
            keys = frozenset(map(_key, errors))
            common = keys if common is None else common & keys
    return common or frozenset()


class _Reader:
    """Reads data again, as often as it may; from then on it finds nothing wrong."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._left = MAX_READINGS

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def errors(self, data: object) -> list[ErrorDetail]:
        if self.is_spent:
            return []
        self._left -= 1
        try:
            self._read(data)
        except ValidationError as error:
            return error_details(error)
        return []


def _one_by_one(detail: ErrorDetail) -> Iterator[ErrorDetail]:
    cause = detail.get("ctx", {}).get("error")
    if not isinstance(cause, FieldErrors):
        yield detail
        return
    for each in cause.errors:
        yield {**detail, "ctx": {"error": FieldErrors([each])}}


def _key(detail: ErrorDetail) -> object:
    """Return what two readings of one error have in common."""
    cause = detail.get("ctx", {}).get("error")
    own = cause.errors if isinstance(cause, FieldErrors) else detail["msg"]
    return detail["loc"], detail["type"], own


def _refuses(detail: ErrorDetail, data: object, place: Path) -> bool:
    """Say whether the value at a place is refused, by itself or by what it is directly in."""
    is_there = (_place(data, detail) or ())[: len(place)] == place
    return is_there and len(detail["loc"]) >= len(place) - 1


def _place(data: object, detail: ErrorDetail) -> Path | None:
    """Return the path of what an error is about; None where that is not written.

    Steps of the model that the data has not are left out: they name alternatives of a type.
    """
    cause = detail.get("ctx", {}).get("error")
    own = cause.errors[0].path if isinstance(cause, FieldErrors) else ()
    path: Path = ()
    for step in detail["loc"]:
        if _has(_at(data, path), step):
            path = (*path, step)
    for step in own:
        if not _has(_at(data, path), step):
            return None
        path = (*path, step)
    return path


def _is_there(data: object, path: Path) -> bool:
    return all(_has(_at(data, path[:length]), step) for length, step in enumerate(path))


def _has(node: object, step: str | int) -> bool:
    match node, step:
        case dict(), str():
            return step in node
        case list(), int():
            return step < len(node)
        case _:
            return False


def _at(data: object, path: Path) -> Any:  # Any: parts of plain data
    node: Any = data
    for step in path:
        node = node[step]
    return node


def _key_at(path: Path | None) -> Path:
    """Return the path of the key with a value: that of the whole list for one of its items."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path or ()
