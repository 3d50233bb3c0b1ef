"""Errors and warnings about a policy or settings text: where, what, and what to do about it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.api.args import Fix, Path
from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConfigError
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.primitives.hints import quote

MAX_DIAGNOSTICS: Final = 100
_WRONG_NAMES: Final = frozenset((Rule.UNKNOWN_FIELD, Rule.MISPLACED_FIELD))
_MISSING: Final = frozenset((Rule.MISSING_FIELD, Rule.NO_CRITERION, Rule.THRESHOLD_RANGE))
_THRESHOLDS: Final = ("thresholds", "targetThresholds")
_NO_TEXTS: Final[Mapping[str, str | bytes]] = {}


class Diagnostic(Struct, frozen=True):
    """One error or warning; `line` and `column` count from 1 and are 0 where there is no place.

    `path` is the field as a person would say it (`profiles[0].name`), `context` the profile and the
    plugin around it by name. Upstream accepts what is `forgivable`: a lenient reading warns of it.
    `fix` corrects the key or value at the place, where that is mechanical.
    """

    source: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    context: str = ""
    forgivable: bool = False
    rule: Rule = Rule.ARGUMENT_REFUSED
    fix: Fix | None = None

    @property
    def where(self) -> str:
        """The source with line and column, where there are any."""
        source = printable(self.source)
        return f"{source}:{self.line}:{self.column}" if self.line else source

    def text(self, *, with_hint: bool = True) -> str:
        """Return everything but the place, on one line; what cannot be printed is replaced.

        Plugins of any package write messages, and quote what stands in a file.
        """
        text = f"{self.message}; {self.hint}" if self.hint and with_hint else self.message
        inside = f" (in {self.context})" if self.context else ""
        return printable(": ".join(filter(None, (self.path, text))) + f"{inside} [{self.rule}]")

    def __str__(self) -> str:
        return f"{self.where}: {self.text()}"


class PolicyErrors(ConfigError):  # noqa: N818 - carries several; the plural says so
    """Everything wrong with the given files, in the order of files and lines.

    `complete` is False when reading stopped at the hundredth problem; `warnings` are what was worth
    saying besides. `texts` are what was read, by its name; `ending` says that reading stopped.
    """

    def __init__(
        self,
        diagnostics: Iterable[Diagnostic],
        *,
        complete: bool = True,
        warnings: Iterable[Diagnostic] = (),
        texts: Mapping[str, str | bytes] = _NO_TEXTS,
    ) -> None:
        self.diagnostics = _sorted_unique(_without_consequences(tuple(diagnostics)))
        self.complete = complete
        self.warnings = tuple(warnings)
        self.texts = texts
        self.ending = () if complete else (f"stopped after {len(self.diagnostics)} problems",)
        super().__init__("\n".join((*map(str, self.diagnostics), *self.ending)))


class DiagnosticList:
    """Collects errors and warnings while a policy is read; `warnings` do not reject it.

    A lenient list warns of what is forgivable. At the hundredth problem reading stops with
    PolicyErrors; warnings beyond a hundred are dropped. `texts` are what was read, by its name, so
    that errors can show their lines.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self.texts: dict[str, str | bytes] = {}
        self._errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []

    def add(self, diagnostic: Diagnostic) -> None:
        """Remember a problem; raises PolicyErrors when there are too many to go on."""
        if self.lenient and diagnostic.forgivable:
            self.warn(diagnostic)
            return
        self._errors.append(diagnostic)
        if len(self._errors) >= MAX_DIAGNOSTICS:
            raise PolicyErrors(
                self._errors, complete=False, warnings=self.warnings, texts=self.texts
            )

    def warn(self, diagnostic: Diagnostic) -> None:
        """Remember something worth saying that is no reason to refuse."""
        if len(self._warnings) < MAX_DIAGNOSTICS:
            self._warnings.append(diagnostic)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings in the order of files and lines."""
        return _sorted_unique(self._warnings)

    @property
    def error_paths(self) -> frozenset[str]:
        """Return the paths at which something is wrong."""
        return frozenset(problem.path for problem in self._errors)

    def raise_if_errors(self) -> None:
        """Raise PolicyErrors if anything was wrong."""
        if self._errors:
            raise self._refusal(complete=True)

    def _refusal(self, *, complete: bool) -> PolicyErrors:
        return PolicyErrors(
            self._errors, complete=complete, warnings=self.warnings, texts=self.texts
        )


class DiagnosticDeduplicator(DiagnosticList):
    """Adds to another list, except at or below a path at which that list has an error."""

    def __init__(self, target: DiagnosticList) -> None:
        super().__init__(lenient=target.lenient)
        self._target = target
        self._reported_paths = target.error_paths

    def add(self, diagnostic: Diagnostic) -> None:
        """Add an error, unless the list has one at or above its path."""
        if not any(_is_at_or_below(diagnostic.path, reported) for reported in self._reported_paths):
            self._target.add(diagnostic)

    def warn(self, diagnostic: Diagnostic) -> None:
        """Pass a warning on."""
        self._target.warn(diagnostic)


def format_path(path: Path) -> str:
    """Write a path as a person would: `profiles[0].pluginConfig[1].args`."""
    return "".join(map(_format_step, path)).removeprefix(".")


def _is_at_or_below(path: str, outer: str) -> bool:
    """Say whether a spelled path is another one or leads below it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _format_step(part: str | int) -> str:
    """Write one step; a key that would be misread gets brackets and quotes."""
    if isinstance(part, int):
        return f"[{part}]"
    if part and all(character.isalnum() or character in "_-/" for character in part):
        return f".{quote(part)[1:-1]}"
    return f"[{quote(part)}]"


def _without_consequences(errors: tuple[Diagnostic, ...]) -> Iterator[Diagnostic]:
    """Leave out that something is missing where it is there, misspelt or at a wrong place.

    One mistake is one error; what is left out comes if it is still so when the other is corrected.
    """
    for error in errors:
        if not any(_explains(other, error) for other in errors):
            yield error


def _explains(mistake: Diagnostic, error: Diagnostic) -> bool:
    """Say whether a name that is wrong or misplaced is why another error says it is missing."""
    if mistake.rule not in _WRONG_NAMES or error.rule not in _MISSING:
        return False
    missing = error.path.rpartition(".")[2]
    is_map = error.rule != Rule.THRESHOLD_RANGE or missing in _THRESHOLDS
    is_in_one_plugin = _plugin_of(mistake.path) == _plugin_of(error.path)
    meant = mistake.fix.text if mistake.fix else None
    return is_map and is_in_one_plugin and missing in (meant, mistake.path.rpartition(".")[2])


def _plugin_of(path: str) -> list[str]:
    """Return the steps to the plugin's entry of pluginConfig, or to the strategy, around a path."""
    return path.split(".")[:2]


def _sorted_unique(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort by source in order of appearance, then by place, each text once."""
    unique = tuple(dict.fromkeys(diagnostics))
    ranks = {source: rank for rank, source in enumerate(dict.fromkeys(p.source for p in unique))}
    return tuple(sorted(unique, key=lambda it: (ranks[it.source], it.line, it.column)))
