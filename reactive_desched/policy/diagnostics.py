"""What is wrong with a text a person wrote: where, what, and what to do about it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, structs

from reactive_desched.errors import ConfigError

Path = tuple[str | int, ...]

MOST_PROBLEMS: Final = 100
LENIENT: Final = "lenient"
"""The validation context of a reading that forgives what upstream accepts."""

_LONGEST_TEXT: Final = 60


class Problem(Struct, frozen=True):
    """One thing to put right; `line` and `column` count from 1 and are 0 where there is no place.

    `path` is the field as a person would say it (`profiles[0].name`), `context` the profile and the
    plugin around it by name. Upstream accepts what is `forgivable`: a lenient reading warns of it.
    """

    source: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    context: str = ""
    forgivable: bool = False

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        says = f"{self.message}; {self.hint}" if self.hint else self.message
        inside = f" (in {self.context})" if self.context else ""
        return ": ".join(filter(None, (where, self.path, says))) + inside


class PolicyErrors(ConfigError):  # noqa: N818 - carries several; the plural says so
    """Everything wrong with the given files, in the order of files and lines.

    `complete` is False when reading stopped at the hundredth problem; `warnings` are what was worth
    saying besides.
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        *,
        complete: bool = True,
        warnings: Iterable[Problem] = (),
    ) -> None:
        self.problems = _in_order(problems)
        self.complete = complete
        self.warnings = tuple(warnings)
        rest = () if complete else (f"stopped after {len(self.problems)} problems",)
        super().__init__("\n".join((*map(str, self.problems), *rest)))


class ProblemList:
    """Collects problems while reading goes on; `warnings` are those that refuse nothing.

    A lenient list warns of what is forgivable. At the hundredth problem reading stops with
    PolicyErrors; warnings beyond a hundred are dropped.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Remember a problem; raises PolicyErrors when there are too many to go on."""
        if self.lenient and problem.forgivable:
            self.warn(problem)
            return
        self._problems.append(problem)
        if len(self._problems) >= MOST_PROBLEMS:
            raise PolicyErrors(self._problems, complete=False, warnings=self.warnings)

    def warn(self, problem: Problem) -> None:
        """Remember something worth saying that is no reason to refuse."""
        if len(self._warnings) < MOST_PROBLEMS:
            self._warnings.append(problem)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Give the warnings in the order of files and lines."""
        return _in_order(self._warnings)

    @property
    def places(self) -> frozenset[str]:
        """Give the paths at which something is wrong."""
        return frozenset(problem.path for problem in self._problems)

    def raise_any(self) -> None:
        """Raise PolicyErrors if anything was wrong."""
        if self._problems:
            raise PolicyErrors(self._problems, warnings=self.warnings)


class ProblemsElsewhere(ProblemList):
    """Passes on to another list what is not at or below a place of which that has told already."""

    def __init__(self, found: ProblemList) -> None:
        super().__init__(lenient=found.lenient)
        self._found = found
        self._told = found.places

    def add(self, problem: Problem) -> None:
        """Pass a problem on, unless something was told of its place before."""
        if not any(_is_within(problem.path, told) for told in self._told):
            self._found.add(problem)

    def warn(self, problem: Problem) -> None:
        """Pass a warning on."""
        self._found.warn(problem)


class Complaint(Struct, frozen=True):
    """What a validator finds wrong below the value it was given; `path` leads there.

    Upstream accepts what is `forgivable`, though it does nothing or not what it says.
    """

    message: str
    hint: str = ""
    path: Path = ()
    forgivable: bool = False


class Complaints(ValueError):  # noqa: N818 - carries several; the plural says so
    """Raised by a model's validator to report several complaints, each at its own place."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(complaint.message for complaint in complaints))


@runtime_checkable
class Noted(Protocol):
    """A model that has more to say of what it accepts."""

    def notes(self) -> Iterable[Complaint]:
        """Say what is accepted and has no effect, or hardly the one that is meant."""
        ...


def refuse_if_any(complaints: Iterable[Complaint], context: object = None) -> None:
    """Raise the complaints, if there are any; in the context LENIENT forgive what can be."""
    found = tuple(complaints)
    if context == LENIENT:
        found = tuple(complaint for complaint in found if not complaint.forgivable)
    if found:
        raise Complaints(found)


def under(step: str | int, complaints: Iterable[Complaint]) -> Iterator[Complaint]:
    """Move complaints one step down."""
    for each in complaints:
        yield structs.replace(each, path=(step, *each.path))


def quoted(text: str) -> str:
    """Show a text a person wrote on one line and within bounds."""
    short = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
    escaped = short.encode("unicode_escape").decode() if not short.isprintable() else short
    return f'"{escaped}"'


def spelled(path: Path) -> str:
    """Write a path as a person would: `profiles[0].pluginConfig[1].args`."""
    return "".join(map(_step, path)).removeprefix(".")


def _is_within(path: str, outer: str) -> bool:
    """Say whether a spelled path is another one or leads below it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


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
