"""The report of `policy diff`, from which text, JSON, Markdown and HTML are made."""

from collections.abc import Mapping

from reactive_desched.plan.rule_table import ReportPart

__all__ = [
    "API_VERSION",
    "KIND",
    "BlockedPods",
    "ComparedPolicy",
    "MovedPod",
    "Peak",
    "PodMove",
    "PolicyDiff",
    "RecordedTime",
]

API_VERSION = "reactive-desched/v1alpha1"
KIND = "PolicyDiff"


class Peak(ReportPart, frozen=True, gc=False):
    """The most evictions of one minute, and when that began; no time where there are none."""

    evictions: int = 0
    at: str | None = None


class BlockedPods(ReportPart, frozen=True, gc=False):
    """The pods that a gate blocked for some time, and how many of them never went.

    `is_limit` says that the gate limits how many pods go, and `setting` names a field of the
    settings or the policy by which it does.
    """

    gate: str
    reason: str
    pods: int
    never_evicted: int
    is_limit: bool
    setting: str = ""


class PodMove(ReportPart, frozen=True, gc=False):
    """An eviction that a policy would have made; `replacement_node` is empty where none came."""

    time: str
    namespace: str
    pod: str
    workload: str
    node: str
    plugin: str
    replacement_node: str = ""


class ComparedPolicy(ReportPart, frozen=True, gc=False):
    """The evictions that one policy would have made.

    `not_ready_seconds` sums, over the evicted pods that were Ready, the time until the replacement
    was; `futile` counts evictions whose replacement met the same finding, or did not run. Counts by
    hour are by the hour's beginning. `version` is that of the program that decided.
    """

    files: tuple[str, ...]
    revision: str
    evictions: int
    pods: int
    by_plugin: Mapping[str, int]
    by_namespace: Mapping[str, int]
    by_workload: Mapping[str, int]
    by_hour: Mapping[str, int]
    peak: Peak
    not_ready_seconds: float
    most_not_ready: int
    futile: int
    blocked: tuple[BlockedPods, ...]
    plugin_faults: tuple[str, ...] = ()
    version: str = ""
    moves: tuple[PodMove, ...] = ()


class MovedPod(ReportPart, frozen=True, gc=False):
    """A pod that only one of both policies would have moved, first at `time`, and `times` times.

    `other` says what the other policy had against it.
    """

    time: str
    namespace: str
    pod: str
    workload: str
    node: str
    plugin: str
    finding: str
    other: str
    replacement_node: str = ""
    times: int = 1


class RecordedTime(ReportPart, frozen=True, gc=False):
    """The recorded time: from when to when, without which times, and the evictions of then.

    `asked_since` and `asked_until` are null where all was asked for, and may be far from `since`
    and `until`, between which something is recorded.
    `evictions` counts those of the recorded controller, `named` those of them that the old policy
    names, where it is the policy that was in force; else it is null. `policy_changes` is how often
    the policy or the settings changed.
    """

    path: str
    since: str
    until: str
    seconds: float
    cluster: str
    version: str
    evictions: int
    dry_run_evictions: int
    named: int | None
    policy_changes: int
    asked_since: str | None = None
    asked_until: str | None = None
    gaps: tuple[tuple[str, str], ...] = ()
    damages: tuple[str, ...] = ()


class PolicyDiff(ReportPart, frozen=True, gc=False, kw_only=True):
    """The evictions of two policies over a recorded time, and in what they differ.

    `both` counts the pods that both would have moved, `more_often` those of them that only one
    would have moved as often.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    recorded: RecordedTime
    old: ComparedPolicy
    new: ComparedPolicy
    both: int
    more_often: int
    only_old: tuple[MovedPod, ...]
    only_new: tuple[MovedPod, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
