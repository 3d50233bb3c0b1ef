"""Compares what two policies decided over the same recorded time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.model.decisions import EVICTION_LIMIT_GATE
from reactive_desched.policy_diff.decisions import HeldFinding, MadeEviction, PolicyDecisions
from reactive_desched.policy_diff.recorded_facts import RecordedFacts
from reactive_desched.policy_diff.report import (
    BlockedPods,
    ComparedPolicy,
    MovedPod,
    Peak,
    PodMove,
    PolicyDiff,
    RecordedTime,
)
from reactive_desched.text.counts import format_count
from reactive_desched.text.times import format_moment, format_second

__all__ = [
    "ASSUMPTIONS",
    "compare_policies",
    "describe_counts",
    "recorded_evictions_named",
]

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600

LIMITS: Final = frozenset(
    {
        *(
            "EvictionRateLimit",
            EVICTION_LIMIT_GATE,
            "PluginLimit",
            "MaxMoving",
            "Schedule",
            "NamedBudget",
        ),
        *("MigrationLimit", "ObjectLimiter", "JobEvictionRate", "StormBrake", "PendingBrake"),
        *("ZoneBrake", "MoveMemory"),
    }
)
"""The gates that limit how many pods go, and how fast."""

_AGAIN: Final = " A pod that is evicted and its replacements count as one pod."

ASSUMPTIONS: Final = (
    (
        "A pod that only a policy moves is replaced where the kube-scheduler's default rules put"
        " it, of equal nodes on that of the recorded replacement, else the first by name. What"
        " happened to the recorded pod later happens to its replacement: it becomes not Ready, is"
        " relabelled or deleted as recorded."
    ),
    (
        "A pod that only the recorded controller moved stays where it was, its recorded replacement"
        " is not there, and what happened to that replacement happens to the pod."
    ),
    (
        "Evicted pods end, and replacements become Ready, as fast as the recorded controller's of"
        " the same pod, else after the median time of their workload in the recording. A ReplicaSet"
        " with too many pods deletes those that it would delete in each world."
    ),
    (
        "The node of a set of moves gets its taint within a second, or when the recorded controller"
        " wrote it some seconds later, and a pod for which room is made its nomination at once;"
        " such a pod is bound as soon as it fits. A pod that was bound in the recording is bound in"
        " both worlds, whether this policy made room for it or not."
    ),
    (
        "Nodes, autoscaling, rollouts, evictions by others and everything else happen as recorded,"
        " whatever the policy does: an emptied node stays. Measured use moves with the pod."
    ),
    (
        "PodDisruptionBudgets allow what they would with the pods of each world; the API server"
        " takes every other request, and needs as long for one as it did in the recording."
    ),
    (
        "Each policy begins with the cluster as it was at the beginning, and leads throughout;"
        " pauses by people, and times in which the controller could not watch, hold for both."
    ),
)


def compare_policies(
    old: PolicyDecisions,
    new: PolicyDecisions,
    recorded: RecordedTime,
    warnings: Iterable[str] = (),
) -> PolicyDiff:
    """Return what both would have done, and in what they differ."""
    by_old, by_new = _by_line(old.evictions), _by_line(new.evictions)
    both = by_old.keys() & by_new.keys()
    return PolicyDiff(
        recorded=recorded,
        old=_compared(old),
        new=_compared(new),
        both=len(both),
        more_often=sum(len(by_old[line]) != len(by_new[line]) for line in both),
        only_old=_only(by_old, both, new),
        only_new=_only(by_new, both, old),
        assumptions=ASSUMPTIONS,
        warnings=(*_doubts(old, recorded), *warnings),
    )


TRUSTED_SHARE: Final = 0.8
"""With fewer of the recorded evictions among its own a calculation is far from what happened."""


def _doubts(old: PolicyDecisions, recorded: RecordedTime) -> Iterator[str]:
    """Say where the old policy's evictions are not those that it made, as recorded."""
    if (named := recorded.named) is None:
        return
    made, calculated = recorded.evictions, len(old.evictions)
    if named < TRUSTED_SHARE * max(made, calculated):
        yield (
            f"the old policy made {format_count(made, 'eviction')}, as recorded; this calculation"
            f" has {calculated:,} of it, {named:,} of which were made: rely as little on what it"
            " says of the new policy"
        )


def recorded_evictions_named(old: PolicyDecisions, facts: RecordedFacts) -> int:
    """Count the recorded evictions of which a policy evicts the same pod, or one of its line."""
    lines = Counter(each.pod.line for each in old.evictions)
    named = 0
    for uid in facts.evicted:
        line = facts.line_of(uid)
        if lines[line]:
            lines[line] -= 1
            named += 1
    return named


def _by_line(evictions: Iterable[MadeEviction]) -> dict[str, list[MadeEviction]]:
    found: defaultdict[str, list[MadeEviction]] = defaultdict(list)
    for each in evictions:
        found[each.pod.line].append(each)
    return dict(found)


def _compared(tried: PolicyDecisions) -> ComparedPolicy:
    evictions, until_s = tried.evictions, tried.ended_s
    spans = [
        (each.time_s, each.time_s + each.ready_s if each.ready_s is not None else until_s)
        for each in evictions
        if each.was_ready and each.replacement
    ]
    return ComparedPolicy(
        files=tried.files,
        revision=tried.revision,
        version=tried.version,
        evictions=len(evictions),
        pods=len({each.pod.line for each in evictions}),
        by_plugin=_count(evictions, lambda each: each.pod.plugin),
        by_namespace=_count(evictions, lambda each: each.pod.namespace),
        by_workload=_count(evictions, lambda each: f"{each.pod.namespace}/{each.pod.workload}"),
        by_hour=dict(sorted(_count(evictions, lambda each: _hour(each.time_s)).items())),
        peak=_peak([each.time_s for each in evictions]),
        not_ready_seconds=round(sum(end - begin for begin, end in spans), 1),
        most_not_ready=_most_at_once(spans),
        futile=sum(each.is_futile for each in evictions),
        blocked=_blocked_pods(tried),
        moves=tuple(map(_move, evictions)),
        plugin_faults=tried.plugin_faults,
    )


def _count(
    evictions: Iterable[MadeEviction], key: Callable[[MadeEviction], str]
) -> Mapping[str, int]:
    return dict(Counter(map(key, evictions)).most_common())


def _hour(time_s: float) -> str:
    return format_second(time_s - time_s % _HOUR_S)


def _peak(times: Sequence[float]) -> Peak:
    """Return the most evictions within any minute."""
    best, best_at, first = 0, 0.0, 0
    times = sorted(times)
    for last, time_s in enumerate(times):
        while times[first] <= time_s - _MINUTE_S:
            first += 1
        if last - first + 1 > best:
            best, best_at = last - first + 1, times[first]
    return Peak(best, format_second(best_at) if best else None)


def _most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    steps = sorted(step for begin, end in spans for step in ((begin, 1), (end, -1)))
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _move(made: MadeEviction) -> PodMove:
    pod = made.pod
    return PodMove(
        time=format_moment(made.time_s),
        namespace=pod.namespace,
        pod=pod.name,
        workload=pod.workload,
        node=pod.node,
        plugin=pod.plugin,
        replacement_node=made.replacement_node,
    )


def _blocked_pods(tried: PolicyDecisions) -> tuple[BlockedPods, ...]:
    went = {each.pod.line for each in tried.evictions}
    rows = (
        BlockedPods(
            each.gate,
            each.reason,
            len(each.lines),
            len(set(each.lines) - went),
            each.gate in LIMITS,
            each.setting,
        )
        for each in tried.blocked
    )
    return tuple(sorted(rows, key=lambda row: (-row.pods, row.gate, row.reason)))


def _only(
    by_line: Mapping[str, list[MadeEviction]], both: Iterable[str], other: PolicyDecisions
) -> tuple[MovedPod, ...]:
    """Return the pods that only one policy moves, in the order of time."""
    both = set(both)
    held: dict[str, list[HeldFinding]] = {}
    for each in other.held:
        held.setdefault(each.pod.line, []).append(each)
    moved = [
        MovedPod(
            time=format_second(first.time_s),
            namespace=first.pod.namespace,
            pod=first.pod.name,
            workload=first.pod.workload,
            node=first.pod.node,
            plugin=first.pod.plugin,
            finding=first.pod.finding,
            other=_why_not(first, held.get(line, ()), other),
            replacement_node=first.replacement_node,
            times=len(made),
        )
        for line, made in by_line.items()
        if line not in both
        for first in made[:1]
    ]
    return tuple(sorted(moved, key=lambda each: (each.time, each.namespace, each.pod)))


def _why_not(made: MadeEviction, held: Sequence[HeldFinding], other: PolicyDecisions) -> str:
    """Say why the other policy did not move a pod."""
    same = [each for each in held if each.pod.plugin == made.pod.plugin]
    if same or held:
        last = max(same or held, key=lambda each: each.last_s)
        setting = f" (setting {last.setting})" if last.setting else ""
        by = "" if same else f"{last.pod.plugin} finds it, "
        return f"{by}blocked by {last.gate}/{last.reason}: {last.message}{setting}"
    if made.pod.plugin not in other.plugins:
        return f"{made.pod.plugin} is not enabled"
    return f"{made.pod.plugin} finds nothing wrong with it"


def describe_counts(diff: PolicyDiff) -> str:
    """Say in a sentence what the new policy does more or less."""
    old, new = diff.old, diff.new
    if not old.evictions and not new.evictions:
        return "Neither policy would have evicted a pod."
    if not diff.only_old and not diff.only_new and not diff.more_often:
        return f"Both policies would have moved the same {format_count(diff.both, 'pod')}."
    return (
        f"The new policy would have made {format_count(new.evictions, 'eviction')} of"
        f" {format_count(new.pods, 'pod')}, the old one {old.evictions:,} of {old.pods:,}:"
        f" {format_count(len(diff.only_new), 'pod')} only the new one would have moved,"
        f" {len(diff.only_old):,} only the old one, {diff.both:,} both."
        f"{_AGAIN if old.evictions + new.evictions > old.pods + new.pods else ''}"
    )
