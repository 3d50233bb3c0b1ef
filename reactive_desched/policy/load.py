"""Reads files: one policy and its settings, or every error in them."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.rules import Rule
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.detect_kind import POLICY_KIND, DocumentKind
from reactive_desched.policy.documents import Document, DocumentSet, SourceText
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.policy_reader import PolicyReader, ReadPolicy
from reactive_desched.policy.references import (
    drains_without_plugin,
    misnamed_plugins,
    unknown_plugins_and_changes,
    unknown_profiles,
)
from reactive_desched.policy.registry import EVICT, Registry, with_evictor
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from reactive_desched.policy.source_files import read_source
from reactive_desched.policy.yaml.diagnostics import (
    Diagnostic,
    DiagnosticDeduplicator,
    DiagnosticList,
    PolicyErrors,
)

if TYPE_CHECKING:
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings

_IDENTITY: Final = frozenset(("apiVersion", "kind"))


class PolicyCheckResult(Struct, frozen=True):
    """The errors and warnings of one text.

    `complete` is False when reading stopped at the hundredth error. `policy` and `settings` are
    what was read, None where the text has none or has errors. `source` is the text, None where it
    cannot be read.
    """

    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    complete: bool = True
    policy: Policy | None = None
    settings: "ReactiveSettings | None" = None
    source: SourceText | None = None


def load_files(
    paths: Iterable[Path | str],
    registry: Registry,
    *,
    lenient: bool = False,
    schedulers: SchedulerTexts | None = None,
) -> Configuration:
    """Read files that hold, in any order, one policy and at most one set of settings.

    A lenient reading takes every policy that upstream takes, and warns of what upstream does not
    read. `schedulers` has what settings refer to. Raises PolicyErrors with everything wrong in all
    of them, unreadable files included.
    """
    diagnostics = DiagnosticList(lenient=lenient)
    sources = [source for path in paths if (source := read_source(path, diagnostics)) is not None]
    return _load(sources, registry, diagnostics, schedulers)


def load_sources(
    sources: Iterable[SourceText], registry: Registry, *, lenient: bool = False
) -> Configuration:
    """Read texts that hold, in any order, one policy and at most one set of settings.

    Lenient as for `load_files`. Raises PolicyErrors.
    """
    return _load(list(sources), registry, DiagnosticList(lenient=lenient))


def load_runnable(
    paths: Iterable[Path | str],
    registry: Registry,
    *,
    lenient: bool = False,
    schedulers: SchedulerTexts | None = None,
) -> Configuration:
    """Read files as `load_files` does; what `run` cannot do raises PolicyErrors too."""
    return _runnable(load_files(paths, registry, lenient=lenient, schedulers=schedulers))


def load_what_if(
    policy: Path | str,
    settings: Path | str,
    registry: Registry,
    *,
    lenient: bool = False,
    schedulers: SchedulerTexts | None = None,
) -> Configuration:
    """Read a policy as `load_runnable`, with these settings in place of those in its file."""
    diagnostics = DiagnosticList(lenient=lenient)
    sources: list[SourceText] = []
    if (source := read_source(policy, diagnostics)) is not None:
        sources.append(replace(source, only=POLICY_KIND))
    if (source := read_source(settings, diagnostics)) is not None:
        sources.append(source)
    return _runnable(_load(sources, registry, diagnostics, schedulers))


def _runnable(configuration: Configuration) -> Configuration:
    if configuration.obstacles:
        texts = {source.name: source.text for source in configuration.sources}
        raise PolicyErrors(configuration.obstacles, texts=texts)
    return configuration


def check_source(
    file: SourceText | Path | str,
    registry: Registry,
    *,
    lenient: bool = False,
    wall_clock: Callable[[], float] = time.time,
) -> PolicyCheckResult:
    """Say everything there is to say of one file or text: a policy, settings, or both.

    A policy has errors exactly where `load_runnable` refuses it. Schedules are looked at from the
    time of the `wall_clock` on.
    """
    diagnostics = DiagnosticList(lenient=lenient)
    source = file if isinstance(file, SourceText) else read_source(file, diagnostics)
    read, settings = None, None
    try:
        if source is not None:
            read, settings = _check_documents(source, registry, diagnostics, wall_clock)
        diagnostics.raise_if_errors()
        for problem in () if read is None else read.obstacles:
            diagnostics.add(problem)
        diagnostics.raise_if_errors()
    except PolicyErrors as errors:
        return PolicyCheckResult(
            errors.diagnostics, errors.warnings, errors.complete, source=source
        )
    return PolicyCheckResult(
        warnings=diagnostics.warnings,
        policy=None if read is None else read.policy,
        settings=settings,
        source=source,
    )


def _load(
    sources: Sequence[SourceText],
    registry: Registry,
    diagnostics: DiagnosticList,
    schedulers: SchedulerTexts | None = None,
) -> Configuration:
    documents = DocumentSet(diagnostics)
    for source in sources:
        documents.add(source)
    schedulers = schedulers or SchedulerTexts()
    read, settings = _read_both(documents, registry, diagnostics, schedulers)
    diagnostics.raise_if_errors()
    if read is None:
        missing = [_missing_policy(sources)]
        raise PolicyErrors(missing, warnings=diagnostics.warnings, texts=diagnostics.texts)
    return Configuration(
        read.policy,
        settings,
        diagnostics.warnings,
        read.obstacles,
        sources=tuple(sources),
        scheduler_texts=schedulers.read,
    )


def _read_both(
    documents: DocumentSet,
    registry: Registry,
    diagnostics: DiagnosticList,
    schedulers: SchedulerTexts,
) -> tuple[ReadPolicy | None, "ReactiveSettings | None"]:
    """Read the policy and the settings; those in a file of koordinator's count without others."""
    settings = _read_settings(documents.settings, diagnostics, registry)
    if settings is not None and documents.settings is not None:
        settings = schedulers.resolve(settings, documents.settings.location, diagnostics)
    read = _read_policy(documents.policy, registry, diagnostics)
    if read is not None and settings is not None and documents.settings is not None:
        beside = settings, documents.settings.location, read.policy
        for diagnostic in (*unknown_profiles(*beside), *drains_without_plugin(*beside)):
            diagnostics.add(diagnostic)
    if read is None or read.settings is None or documents.policy is None:
        return read, settings
    if documents.settings is not None:
        _note_settings_beside(documents.policy, documents.settings, diagnostics)
        return read, settings
    derived = Document(read.settings, DocumentKind.SETTINGS, documents.policy.revision)
    return read, _read_settings(derived, DiagnosticDeduplicator(diagnostics), registry)


def _note_settings_beside(
    policy: Document, settings: Document, diagnostics: DiagnosticList
) -> None:
    """Say that settings beside a policy stand for what that says of migration jobs and rates.

    A DeschedulerPolicy that would evict directly for that is refused.
    """
    where = settings.location.source
    if policy.kind is DocumentKind.KOORDINATOR:
        message = "what it says of limits and rates does not count beside other settings"
        hint = f"write it into {where}: `policy convert` of this document alone shows it"
        at = policy.location.below("kind")
        diagnostics.warn(at.diagnostic(message, hint, rule=Rule.KOORDINATOR_DIFFERENCE))
        return
    for profile in policy.location.below("profiles").items():
        at = profile.below("plugins", EVICT)
        if not at.is_null:
            message = "does not count beside settings, which say by what profiles evict"
            hint = f"write evictions.perProfile and migration into {where} instead"
            diagnostics.add(at.diagnostic(message, hint, rule=Rule.EXCLUSIVE_FIELDS, at_key=True))


def _read_policy(
    document: Document | None, registry: Registry, diagnostics: DiagnosticList
) -> ReadPolicy | None:
    """Read the policy, if there is one."""
    return (
        None
        if document is None
        else PolicyReader(with_evictor(registry), diagnostics).read(document)
    )


def _check_documents(
    source: SourceText,
    registry: Registry,
    diagnostics: DiagnosticList,
    wall_clock: Callable[[], float],
) -> tuple[ReadPolicy | None, "ReactiveSettings | None"]:
    """Read what is in one text."""
    documents = DocumentSet(diagnostics)
    documents.add(source)
    read, settings = _read_both(documents, registry, diagnostics, SchedulerTexts())
    if settings is not None and settings.budgets.schedules and documents.settings is not None:
        from reactive_desched.policy.closed_schedules import closed_schedules

        at = documents.settings.location
        for each in closed_schedules(settings.budgets.schedules, at, wall_clock()):
            diagnostics.warn(each)
    if documents.policy is None and documents.settings is None:
        diagnostics.raise_if_errors()
        diagnostics.add(_missing_policy([source]))
    return read, settings


def _missing_policy(sources: Sequence[SourceText]) -> Diagnostic:
    """Say that nothing given holds a policy."""
    where = ", ".join(source.name for source in sources) or "policy"
    hint = "begin one with apiVersion: descheduler/v1alpha2 and kind: DeschedulerPolicy"
    return Diagnostic(
        where, 0, 0, "", "there is no DeschedulerPolicy here", hint, rule=Rule.NO_POLICY
    )


def _read_settings(
    document: Document | None, diagnostics: DiagnosticList, registry: Registry | None = None
) -> "ReactiveSettings | None":
    """Decode the settings; None when there are none, or none that are valid."""
    if document is None:
        return None
    from reactive_desched.api.possible_names import value_warnings
    from reactive_desched.policy.settings.installed_sections import decode_settings
    from reactive_desched.policy.settings.pace import at_pace

    location = document.location
    if registry is not None:
        for diagnostic in misnamed_plugins(location, registry):
            diagnostics.add(diagnostic)
    settings = decode_settings(location, diagnostics, _IDENTITY)
    if settings is None:
        return None
    if registry is not None:
        for diagnostic in unknown_plugins_and_changes(settings, location, registry):
            diagnostics.add(diagnostic)
    for warning in value_warnings(settings):
        diagnostics.warn(location.error(warning))
    return at_pace(settings, settings.pace)
