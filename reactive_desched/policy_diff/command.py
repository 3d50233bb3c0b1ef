"""`policy diff`: what each of two policies would have done over a recorded time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched._version import __version__
from reactive_desched.errors import ConfigError, NotRecorded
from reactive_desched.journal.history import read_history
from reactive_desched.journal.uptime import Moment
from reactive_desched.model.history import PastEviction
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import Pod
from reactive_desched.plan.recorded_moment import (
    journal_beside,
    read_configuration,
    recorded_texts,
    selector_of_command_line,
)
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.detect_kind import POLICY_KIND, SETTINGS_KIND
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.policy_diff.comparison import (
    TriedPolicy,
    compare_policies,
    recorded_evictions_named,
)
from reactive_desched.policy_diff.document import write_diff
from reactive_desched.policy_diff.policy_run import PolicyRun
from reactive_desched.policy_diff.recorded_facts import FactsReader, RecordedFacts
from reactive_desched.policy_diff.report import PolicyDiff, RecordedTime
from reactive_desched.primitives.timestamps import parse_flag_moment
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Damage,
    Item,
    ObjectFound,
    PictureEnded,
    UsageMeasured,
)
from reactive_desched.recording.reader import (
    RecordedState,
    RecordingSummary,
    items_between,
    summarize_recording,
)
from reactive_desched.replay.driven_controller import with_next
from reactive_desched.replay.lives import Life, lives
from reactive_desched.text.layout import layout_for
from reactive_desched.text.times import format_second

__all__ = ["DiffOptions", "diff_policies", "run"]

_JUST_BEFORE_S: Final = 0.001


class DiffOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `policy diff`: `old` is None for what was in force in the recording.

    `since` and `until` are as they were typed; an age counts back from the end of the recording.
    `settings` count for both policies, unless there are `old_settings` or `new_settings`.
    """

    old: str | None
    new: str
    recording: Path
    settings: str | None = None
    old_settings: str | None = None
    new_settings: str | None = None
    since: str | None = None
    until: str | None = None
    lenient: bool = False


def run(options: DiffOptions, form: str, limit: int, into: TextIO) -> int:
    """Compare, and write the report as `text`, `json`, `md` or `html`."""
    diff = diff_policies(options)
    into.writelines(_parts(diff, form, limit, into))
    return 0


def _parts(diff: PolicyDiff, form: str, limit: int, into: TextIO) -> Iterator[str]:
    if form == "json":
        yield msgspec.json.format(msgspec.json.encode(diff), indent=2).decode() + "\n"
        return
    document = write_diff(diff, __version__, limit)
    if form == "html":
        from reactive_desched.audit.report.html_page import as_html

        yield from as_html(document)
    elif form == "md":
        from reactive_desched.audit.report.markdown_page import as_markdown

        yield from as_markdown(document)
    else:
        from reactive_desched.policy_diff.text import as_text

        yield from (f"{line}\n" for line in as_text(document, layout_for(into)))


def diff_policies(options: DiffOptions) -> PolicyDiff:
    """Run both policies over the recording; raises ConfigError, PolicyErrors and NotRecorded."""
    path, summary = options.recording, summarize_recording(options.recording)
    since_s, until_s = _period(options, summary)
    damages: list[Damage] = []
    facts = FactsReader().read(items_between(path, since_s, until_s, damages.append))
    in_force = facts.configurations[0] if facts.configurations else None
    recorded = RecordedState()
    tried = [
        TriedPolicy(
            files,
            configuration,
            PolicyRun(configuration, facts, recorded, _past(path, configuration, facts.first_s)),
        )
        for configuration, files in _configurations(options, in_force)
    ]
    items = items_between(path, since_s, until_s, _ignore)
    began_s, ended_s = run_policies(items, [each.run for each in tried], recorded)
    old, new = tried
    named = None
    if in_force is not None and _is_in_force(old.configuration, in_force, options):
        named = recorded_evictions_named(old.run, facts)
    time = RecordedTime(
        path=str(path),
        since=format_second(began_s),
        until=format_second(ended_s),
        seconds=round(ended_s - began_s, 1),
        cluster=summary.cluster,
        version=summary.version,
        evictions=sum(began_s <= each.began_s <= ended_s for each in facts.evicted.values()),
        dry_run_evictions=facts.dry_run_answers,
        named=named,
        policy_changes=max(0, len(facts.configurations) - 1),
        gaps=tuple((format_second(begins), format_second(ends)) for begins, ends in facts.gaps),
        damages=tuple(map(str, damages)),
    )
    return compare_policies(old, new, time, ended_s, _warnings(facts, damages))


def _period(options: DiffOptions, summary: RecordingSummary) -> tuple[float | None, float | None]:
    """Return the beginning and the end that were asked for; raises ConfigError, NotRecorded."""
    end = datetime.fromtimestamp(summary.last_s, UTC)
    since_s, until_s = (
        None if text is None else parse_flag_moment(flag, text, end).timestamp()
        for flag, text in (("--since", options.since), ("--until", options.until))
    )
    first_s, last_s = summary.first_s, summary.last_s
    if since_s is not None and until_s is not None and until_s <= since_s:
        raise ConfigError(f"--until {options.until} is not after --since {options.since}")
    if (since_s or first_s) > last_s or (until_s or last_s) < first_s:
        times = f"{format_second(first_s)} to {format_second(last_s)}"
        raise NotRecorded(f"nothing of that time is recorded: {options.recording} has {times}")
    return since_s, until_s


def run_policies(
    items: Iterable[Item], runs: Sequence[PolicyRun], recorded: RecordedState
) -> tuple[float, float]:
    """Give each run the recorded items; return when they began and ended, since the epoch.

    `recorded` is the state that the runs share: an item is applied to it when its time has come,
    before they take it. Raises NotRecorded where no picture of the cluster is whole.
    """
    began_s = ended_s = 0.0
    for life in lives(items):
        for item in _picture(life, runs[0].facts):
            recorded.apply(item)
        ended_s = life.began.wall_s
        began_s = began_s or ended_s
        for run in runs:
            run.begin(life.began, life.standing)
        for item, following in with_next(life.later):
            ended_s = item.at.wall_s
            for run in runs:
                run.advance_to(item, following)
            recorded.apply(item)
            for run in runs:
                run.take(item, following)
    if not began_s:
        raise NotRecorded("the recording has no whole picture of the cluster in that time")
    return began_s, ended_s


def _picture(life: Life, facts: RecordedFacts) -> Iterator[Item]:
    """Yield the cluster at the beginning; pods that were evicted meanwhile are not yet ending."""
    at = life.began
    yield replace(life.picture, is_continued=False)
    yield from life.standing
    yield from (UsageMeasured(at, sample) for sample in life.samples)
    for resource, of_kind in life.objects.items():
        for obj in of_kind.values():
            found = obj
            if isinstance(obj, Pod) and obj.is_terminating and obj.uid in facts.evicted:
                is_later = facts.evicted[obj.uid].began_s >= at.wall_s
                found = replace(obj, deletion_s=None) if is_later else obj
            yield ObjectFound(at, resource, found)
    yield PictureEnded(at)


def _ignore(_: Damage) -> None:
    """Keep no damage: the first reading named each."""


def _configurations(
    options: DiffOptions, in_force: ConfigurationInForce | None
) -> Iterator[tuple[Configuration, tuple[str, ...]]]:
    """Yield both configurations, and the names of their files."""
    for file, settings in (
        (options.old, options.old_settings or options.settings),
        (options.new, options.new_settings or options.settings),
    ):
        yield _configuration(file, settings, in_force, lenient=options.lenient)


def _configuration(
    file: str | None, settings: str | None, in_force: ConfigurationInForce | None, *, lenient: bool
) -> tuple[Configuration, tuple[str, ...]]:
    """Read a policy, settings, or both; what is not given is what was in force."""
    registry = plugin_registry()
    sources: list[SourceText] = []
    has_policy = has_settings = False
    for name in filter(None, (file, settings)):
        checked = check_source(name, registry, lenient=lenient)
        if checked.source is None or checked.errors:
            texts = {} if checked.source is None else {name: checked.source.text}
            raise PolicyErrors(checked.errors, warnings=checked.warnings, texts=texts)
        sources.append(checked.source)
        has_policy = has_policy or checked.policy is not None
        has_settings = has_settings or checked.settings is not None
    names = [each.name for each in sources]
    if in_force is None and not has_policy:
        raise ConfigError(
            "the recording does not say which policy was in force: name a policy file"
        )
    if in_force is not None and not has_policy:
        sources += recorded_texts(in_force, POLICY_KIND)
        names.append("the recorded policy")
    if in_force is not None and not has_settings:
        sources += recorded_texts(in_force, SETTINGS_KIND)
    loaded = load_sources(sources, registry, lenient=lenient)
    if not has_settings and loaded.written is not None:
        names.append("the recorded settings")
    selector = "" if in_force is None else selector_of_command_line(in_force, registry)
    if selector and not loaded.policy.node_selector.requirements:
        policy = replace(loaded.policy, node_selector=parse_selector(selector))
        loaded = replace(loaded, policy=policy)
        names.append(f"the recorded --node-selector {selector}")
    return loaded, tuple(names)


def _is_in_force(
    configuration: Configuration, in_force: ConfigurationInForce, options: DiffOptions
) -> bool:
    """Say whether a configuration decides as the recorded one did."""
    try:
        recorded = read_configuration(in_force, plugin_registry(), lenient=options.lenient)
    except PolicyErrors:
        return False
    return (
        recorded.policy.profiles == configuration.policy.profiles
        and recorded.policy.limits == configuration.policy.limits
        and recorded.policy.node_selector == configuration.policy.node_selector
        and recorded.settings == configuration.settings
    )


def _past(path: Path, configuration: Configuration, began_s: float) -> Sequence[PastEviction]:
    """Return the evictions before the beginning, of the journal in whose folder a recording is."""
    journal = journal_beside(path)
    if journal is None:
        return ()
    read = partial(read_history, journal, Moment(began_s))
    try:
        history = read(
            counts_for_s=configuration.controller.budgets.counts_for_s,
            until_s=began_s - _JUST_BEFORE_S,
        )
    except OSError:
        return ()
    return history.evictions


def _warnings(facts: RecordedFacts, damages: Sequence[Damage]) -> Iterator[str]:
    for begins, ends in facts.gaps:
        yield (
            f"nothing is recorded from {format_second(begins)} to {format_second(ends)}: both"
            " policies begin anew after it, with the cluster as it was then"
        )
    if damages:
        yield f"the recording is damaged in {len(damages)} places, first in {damages[0]}"
