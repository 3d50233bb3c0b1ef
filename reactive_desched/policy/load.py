"""The way in: files to one policy and its settings, or to everything wrong with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reactive_desched.policy.decode import Advice, Decoder
from reactive_desched.policy.diagnostics import PolicyErrors, Problem, ProblemList
from reactive_desched.policy.documents import Document, Documents, Source
from reactive_desched.policy.hints import did_you_mean
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.policy_reader import PolicyReader, ReadPolicy
from reactive_desched.policy.registry import Registry, names, with_evictor
from reactive_desched.policy.runnable import unbuilt
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.policy.yaml_text import LARGEST_TEXT

_IDENTITY: Final = frozenset(("apiVersion", "kind"))


@dataclass(frozen=True, slots=True)
class Configuration:
    """All a person configured, and what is worth telling them about it.

    `unbuilt` says what keeps a sound policy from running; see `runnable.require_runnable`.
    """

    policy: Policy
    settings: ReactiveSettings
    warnings: tuple[Problem, ...] = ()
    unbuilt: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one text; it is sound if there are no problems.

    `complete` is False when reading stopped at the hundredth problem; `unbuilt` names the plugins
    that keep a sound policy from running.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    complete: bool = True
    unbuilt: tuple[str, ...] = ()


def load(
    paths: Iterable[Path | str], registry: Registry, *, lenient: bool = False
) -> Configuration:
    """Read files that hold, in any order, one policy and at most one set of settings.

    A lenient reading takes every policy that upstream takes, and warns of what upstream does not
    read. Raises PolicyErrors with everything wrong in all of them, unreadable files included.
    """
    found = ProblemList(lenient=lenient)
    sources = [source for path in paths if (source := read_source(path, found)) is not None]
    return _configuration(sources, registry, found)


def configure(
    sources: Iterable[Source], registry: Registry, *, lenient: bool = False
) -> Configuration:
    """Read texts that hold, in any order, one policy and at most one set of settings.

    Lenient as for `load`. Raises PolicyErrors.
    """
    return _configuration(list(sources), registry, ProblemList(lenient=lenient))


def load_policy(text: str | bytes, source: str, registry: Registry) -> Policy:
    """Read the policy of one text; settings beside it are checked and left. Raises PolicyErrors."""
    return configure([Source(text, source)], registry).policy


def load_settings(text: str | bytes, source: str) -> ReactiveSettings:
    """Read the settings of one text, whatever policy is beside them. Raises PolicyErrors."""
    found = ProblemList()
    documents = Documents(found)
    documents.add(Source(text, source))
    settings = _settings(documents.settings, found)
    found.raise_any()
    return settings


def check(file: Source | Path | str, registry: Registry, *, lenient: bool = False) -> Verdict:
    """Say everything there is to say of one file or text: a policy, settings, or both.

    What is sound and cannot run yet is a warning.
    """
    found = ProblemList(lenient=lenient)
    try:
        source = file if isinstance(file, Source) else read_source(file, found)
        cannot_run = _checked(source, registry, found) if source is not None else ()
        found.raise_any()
    except PolicyErrors as errors:
        return Verdict(errors.problems, errors.warnings, errors.complete)
    for _, problem in cannot_run:
        found.warn(problem)
    named = dict.fromkeys(name for name, _ in cannot_run)
    return Verdict(warnings=found.warnings, unbuilt=tuple(named))


def read_source(path: Path | str, found: ProblemList) -> Source | None:
    """Read one file, at most one byte more than is allowed; a problem is told if it cannot be."""
    try:
        with Path(path).open("rb") as file:
            return Source(file.read(LARGEST_TEXT + 1), str(path))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        found.add(Problem(str(path), 0, 0, "", f"cannot be read: {reason}", _remedy(error)))
        return None


def _remedy(error: Exception) -> str:
    """Say what to do about a file that cannot be read."""
    match error:
        case FileNotFoundError():
            return "check the path"
        case PermissionError():
            return "let the user this runs as read it"
        case IsADirectoryError():
            return "name the file inside"
        case _:
            return "name a readable file"


def _configuration(
    sources: Sequence[Source], registry: Registry, found: ProblemList
) -> Configuration:
    documents = Documents(found)
    for source in sources:
        documents.add(source)
    settings = _settings(documents.settings, found, registry)
    read = _policy(documents.policy, registry, found)
    found.raise_any()
    if read is None:
        raise PolicyErrors([_no_policy(sources)], warnings=found.warnings)
    cannot_run = tuple(problem for _, problem in unbuilt(read.place, registry))
    return Configuration(read.policy, settings, found.warnings, cannot_run)


def _policy(document: Document | None, registry: Registry, found: ProblemList) -> ReadPolicy | None:
    """Read the policy, if there is one."""
    return None if document is None else PolicyReader(with_evictor(registry), found).read(document)


def _checked(
    source: Source, registry: Registry, found: ProblemList
) -> tuple[tuple[str, Problem], ...]:
    """Read what is in one text; name what keeps a sound policy from running, and say so."""
    documents = Documents(found)
    documents.add(source)
    _settings(documents.settings, found, registry)
    read = _policy(documents.policy, registry, found)
    if documents.policy is None and documents.settings is None:
        found.raise_any()
        found.add(_no_policy([source]))
    return () if read is None else tuple(unbuilt(read.place, registry))


def _no_policy(sources: Sequence[Source]) -> Problem:
    """Say that nothing given holds a policy."""
    where = ", ".join(source.name for source in sources) or "policy"
    hint = "begin one with apiVersion: descheduler/v1alpha2 and kind: DeschedulerPolicy"
    return Problem(where, 0, 0, "", "there is no DeschedulerPolicy here", hint)


def _settings(
    document: Document | None, found: ProblemList, registry: Registry | None = None
) -> ReactiveSettings:
    """Decode the settings, or give the defaults when there are none."""
    if document is None:
        return ReactiveSettings()
    place = document.place
    settings = Decoder(found, Advice()).decode(ReactiveSettings, place, _IDENTITY)
    if settings is None:
        return ReactiveSettings()
    known = names(registry) if registry is not None else settings.debounce.per_plugin.keys()
    for name in settings.debounce.per_plugin.keys() - known:
        at = place.below("debounce", "perPlugin", name)
        found.add(at.problem("there is no such plugin", did_you_mean(name, frozenset(known))))
    return settings
