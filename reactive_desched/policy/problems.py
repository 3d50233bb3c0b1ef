"""What is wrong with a text a person wrote: where, what, and what to do about it."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.errors import ConfigError

Path = tuple[str | int, ...]

MOST_PROBLEMS: Final = 100
_LONGEST_TEXT: Final = 60


class Problem(Struct, frozen=True):
    """One thing to put right; `line` and `column` count from 1 and are 0 where there is no place.

    `path` is the field as a person would say it (`profiles[0].name`), `context` the profile and the
    plugin around it by name.
    """

    source: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    context: str = ""

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        says = f"{self.message}; {self.hint}" if self.hint else self.message
        inside = f" (in {self.context})" if self.context else ""
        return ": ".join(filter(None, (where, self.path, says))) + inside


class PolicyErrors(ConfigError):  # noqa: N818 - carries several; the plural says so
    """Everything wrong with the given files, in the order of files and lines.

    `complete` is False when reading stopped at the hundredth problem.
    """

    def __init__(self, problems: Iterable[Problem], *, complete: bool = True) -> None:
        self.problems = _in_order(problems)
        self.complete = complete
        rest = () if complete else (f"stopped after {len(self.problems)} problems",)
        super().__init__("\n".join((*map(str, self.problems), *rest)))


class ProblemList:
    """Collects problems while reading goes on; `warnings` are those that refuse nothing.

    At the hundredth problem reading stops with PolicyErrors; warnings beyond a hundred are dropped.
    """

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Remember a problem; raises PolicyErrors when there are too many to go on."""
        self._problems.append(problem)
        if len(self._problems) >= MOST_PROBLEMS:
            raise PolicyErrors(self._problems, complete=False)

    def warn(self, problem: Problem) -> None:
        """Remember something worth saying that is no reason to refuse."""
        if len(self._warnings) < MOST_PROBLEMS:
            self._warnings.append(problem)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Give the warnings in the order of files and lines."""
        return _in_order(self._warnings)

    def raise_any(self) -> None:
        """Raise PolicyErrors if anything was wrong."""
        if self._problems:
            raise PolicyErrors(self._problems)


class Complaint(Struct, frozen=True):
    """What a validator finds wrong below the value it was given; `path` leads there."""

    message: str
    hint: str = ""
    path: Path = ()


class Complaints(ValueError):  # noqa: N818 - carries several; the plural says so
    """Raised by a model's validator to report several complaints, each at its own place."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(complaint.message for complaint in complaints))


def refuse_if_any(complaints: Iterable[Complaint]) -> None:
    """Raise the complaints, if there are any."""
    if found := tuple(complaints):
        raise Complaints(found)


def quoted(text: str) -> str:
    """Show a text a person wrote on one line and within bounds."""
    short = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
    escaped = short.encode("unicode_escape").decode() if not short.isprintable() else short
    return f'"{escaped}"'


def spelled(path: Path) -> str:
    """Write a path as a person would: `profiles[0].pluginConfig[1].args`."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(part: str | int) -> str:
    """Write one step; a key that would be misread gets brackets and quotes."""
    if isinstance(part, int):
        return f"[{part}]"
    if part and all(character.isalnum() or character in "_-/" for character in part):
        return f".{quoted(part)[1:-1]}"
    return f"[{quoted(part)}]"


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort by source in order of appearance, then by place, each text once."""
    unique = tuple(dict.fromkeys(problems))
    ranks = {source: rank for rank, source in enumerate(dict.fromkeys(p.source for p in unique))}
    return tuple(sorted(unique, key=lambda it: (ranks[it.source], it.line, it.column)))
