"""Nodes: what the pods bound to each request, and since when it has its taints and labels."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import inf
from typing import Final

from reactive_desched.api.index import NodeState
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeConditionsChanged,
    NodeGone,
    NodeLabelsChanged,
    NodeMetadataChanged,
    NodeTaintsChanged,
)
from reactive_desched.model.labels import Selector
from reactive_desched.model.node_conditions import (
    MAX_CONDITIONS,
    StatusChange,
    stood_s,
    with_change,
)
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.resources import (
    PODS,
    ResourceList,
    add_resources,
    subtract_resources,
    with_more,
)
from reactive_desched.model.taints import PREFER_NO_SCHEDULE, Taint
from reactive_desched.model.usage import LEFT_PODS_KEPT_S
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.state.node_closings import NodeClosings

LONGEST_S: Final = 3600.0
"""A label that changed longer ago than this counts as standing since the node is known."""

MAX_LABELS: Final = 1000
"""So many changed labels of a node are remembered; beyond that the oldest is forgotten."""

Clock = Callable[[], float]

_NO_GAIN: Final = (NodeCapacityDecreased, NodeConditionsChanged)
_ROUNDING_S: Final = 0.001
"""What rounding may leave of a time that has passed."""


def left_s(wanted_s: float, stands_s: float) -> float:
    """Return for how long something must still last that has for a time; 0 if long enough."""
    wait_s = wanted_s - stands_s
    return wait_s if wait_s > _ROUNDING_S else 0.0


class NodeRecord:
    """The record of one node name; `api.index.NodeInfo` describes each attribute.

    `PodStore` and `NodeStore` write it, everything else reads it as a `NodeInfo`.
    """

    __slots__ = (
        "active",
        "completed",
        "eligible",
        "host_port_pods",
        "name",
        "node",
        "requested",
        "resize_delta",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.eligible = False
        self.active: dict[PodKey, Pod] = {}
        self.completed: dict[PodKey, Pod] = {}
        self.requested: dict[str, int] = {}
        self.resize_delta: dict[str, int] = {}
        self.host_port_pods: tuple[Pod, ...] = ()

    @property
    def state(self) -> NodeState | None:
        """The Node and its eligibility; None where there is no Node of this name."""
        return None if self.node is None else NodeState(self.node, self.eligible)

    @property
    def held(self) -> ResourceList:
        """Return what the active pods hold, as the kube-scheduler counts it."""
        return with_more(self.requested, self.resize_delta)

    @property
    def is_empty(self) -> bool:
        """Say whether there is neither a Node nor a pod."""
        return self.node is None and not self.active and not self.completed

    def add_pod(self, pod: Pod) -> None:
        """Count a pod that this node does not hold yet."""
        if not pod.is_active:
            self.completed[pod.uid] = pod
            return
        self.active[pod.uid] = pod
        requested = self.requested
        add_resources(requested, pod.spec.requests)
        requested[PODS] = requested.get(PODS, 0) + 1
        if pod.resize_delta:
            add_resources(self.resize_delta, pod.resize_delta)
        if pod.spec.host_ports:
            self.host_port_pods = (*self.host_port_pods, pod)

    def replace_pod(self, pod: Pod) -> None:
        """Replace the record of a pod that asks for the same resources and ports as before."""
        pods = self.active if pod.uid in self.active else self.completed
        pods[pod.uid] = pod

    def remove_pod(self, uid: PodKey) -> None:
        """Stop counting a pod."""
        old = self.active.pop(uid, None)
        if old is None:
            self.completed.pop(uid, None)
            return
        subtract_resources(self.requested, old.spec.requests)
        subtract_resources(self.requested, {PODS: 1})
        if old.resize_delta:
            subtract_resources(self.resize_delta, old.resize_delta)
        if old.spec.host_ports:
            self.host_port_pods = tuple(p for p in self.host_port_pods if p.uid != uid)


class NodeTimes:
    """The times of one node; of labels only those that changed since it is known, with what was.

    `opened` is when it last began to take pods that it had not taken, whatever their labels.
    """

    __slots__ = (
        "conditions",
        "created",
        "known_since",
        "labels",
        "opened",
        "ready_since",
        "taints",
    )

    def __init__(
        self,
        known_since: float,
        created: float,
        ready_since: float,
        taints: dict[Taint, float],
        labels: dict[str, tuple[float, str | None]],
        conditions: Mapping[str, tuple[StatusChange, ...]],
        opened: float = -inf,
    ) -> None:
        self.known_since = known_since
        self.created = created
        self.ready_since = ready_since
        self.taints = taints
        self.labels = labels
        self.conditions = conditions
        self.opened = opened


class NodeChangeTimes:
    """Keeps since when each node has its taints, labels and conditions, and since when it is Ready.

    The API says of some taints when they were set, and of labels nothing; so it is noted when a
    change was seen. Times are monotonic seconds: a step of the time of day neither shortens nor
    lengthens what is seen to stand. What is asked of a node that is not known stands for ever.

    `clock` gives monotonic seconds and `wall_clock` the time of day, by which the times that the
    API server gives are read when a node is seen for the first time: when it was created, when a
    taint was added, and when its Ready condition changed.
    """

    def __init__(self, clock: Clock, wall_clock: Clock) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._begun: float | None = None
        self._nodes: dict[str, NodeTimes] = {}
        self._unready: dict[str, None] = {}
        self._without: dict[str, dict[str, None]] = {}
        self._relabelled: dict[str, dict[str, None]] = {}
        self._opened: dict[str, float] = {}

    def follow(self, old: Node | None, new: Node) -> None:
        """Follow a node that appeared, or differs from what it was."""
        now = self._clock()
        if self._begun is None:
            self._begun = now
        times = self._nodes.get(new.name)
        if new.is_ready:
            self._unready.pop(new.name, None)
        else:
            self._unready[new.name] = None
        if old is None or times is None or old.uid != new.uid:
            self._begin(new, now, self._begun)
            return
        if old.is_ready != new.is_ready:
            times.ready_since = now
        if _opens(old, new):
            self._note_opened(new.name, times, now)
        if old.taints != new.taints or old.taints_added_s != new.taints_added_s:
            before = dict(_with_times(old))
            times.taints = {
                taint: times.taints.get(taint, now)
                if taint in before and before[taint] == added_s
                else now
                for taint, added_s in _with_times(new)
            }
        if old.conditions is not new.conditions and old.conditions != new.conditions:
            _note_conditions(times, old, new, now)
        if old.labels is not new.labels and old.labels != new.labels:
            self._note_labels(times, old, new, now)

    def _begin(self, new: Node, now: float, first_at: float) -> None:
        """Begin to keep the times of a node that was not known, by what the API server says.

        One that was Ready when the first node was seen is open.
        """
        times = self._nodes[new.name] = NodeTimes(now, now, now, {}, {}, {})
        since = now - self._wall_clock()  # of the epoch, on the monotonic clock
        if new.created_s is not None:
            times.created = min(now, since + new.created_s)
        if new.ready_since_s is not None:
            times.ready_since = min(now, since + new.ready_since_s)
            if times.ready_since > first_at:
                self._note_opened(new.name, times, times.ready_since)
        times.taints = {
            taint: now if added_s is None else min(now, since + added_s)
            for taint, added_s in _with_times(new)
        }
        times.conditions = {
            kind: ((now if changed_s is None else min(now, since + changed_s), status),)
            for kind, status, changed_s in _with_changes(new)
        }

    def forget(self, name: str) -> None:
        """Record that a node is gone."""
        if (times := self._nodes.pop(name, None)) is not None:
            self._unready.pop(name, None)
            self._opened.pop(name, None)
            for key in times.labels:
                self._found_again(key, name)

    def seen(self, name: str) -> NodeTimes | None:
        """Return the times of a node; None of one that is not known."""
        return self._nodes.get(name)

    def restore(self, node: Node, seen: NodeTimes) -> None:
        """Let a node that is known have the times at which another process saw it.

        What that saw later than now counts from now.
        """
        times, now = self._nodes[node.name], self._clock()
        times.known_since = min(now, seen.known_since)
        times.created, times.ready_since = min(now, seen.created), min(now, seen.ready_since)
        if seen.opened <= now:
            self._note_opened(node.name, times, seen.opened)
        for taint, since in seen.taints.items():
            if taint in times.taints:
                times.taints[taint] = min(now, since)
        times.conditions = {
            kind: tuple((min(now, since), status) for since, status in changes)
            if (changes := seen.conditions.get(kind)) and changes[-1][1] == known[-1][1]
            else known
            for kind, known in times.conditions.items()
        }
        for key, (since, value) in seen.labels.items():
            if since <= now:
                times.labels[key] = since, value
                changed = self._relabelled if key in node.labels else self._without
                changed.setdefault(key, {})[node.name] = None

    def taint_s(self, node: str, taint: Taint) -> float:
        """Return for how long a node has had a taint."""
        times = self._nodes.get(node)
        return inf if times is None else self._clock() - times.taints.get(taint, -inf)

    def condition_s(self, node: str, kind: str, status: str, lapse_s: float) -> float | None:
        """Return for how long a condition of a node has had a status; None where it has it not.

        Times of `lapse_s` at most with another status do not interrupt it, and do not count.
        """
        if (times := self._nodes.get(node)) is None:
            return None
        return stood_s(times.conditions.get(kind, ()), status, lapse_s, self._clock())

    def label_s(self, node: str, key: str) -> float:
        """Return for how long a label of a node has been as it is, or has been absent.

        What was so when the node was seen for the first time counts since its creation.
        """
        if (times := self._nodes.get(node)) is None:
            return inf
        return self._clock() - times.labels.get(key, (times.created,))[0]

    def gone_s(self, node: str, key: str) -> float:
        """Return for how long a label of a node is seen to be absent."""
        if (times := self._nodes.get(node)) is None:
            return inf
        return self._clock() - times.labels.get(key, (times.known_since,))[0]

    def ready_s(self, node: str) -> float:
        """Return for how long a node has been Ready, or not Ready."""
        times = self._nodes.get(node)
        return inf if times is None else self._clock() - times.ready_since

    def opened(self, keys: Iterable[str], within_s: float) -> Iterator[tuple[str, float]]:
        """Yield the nodes that opened to pods within a time, with for how long they are open.

        They became Ready, lost a taint that keeps pods away, were uncordoned, or have another value
        of one of these labels, all since this began to follow nodes. A node may be named more than
        once.
        """
        now = self._clock()
        for name, since in self._opened.items():
            if left_s(within_s, now - since):
                yield name, now - since
        for key, changed in product(keys, (self._relabelled, self._without)):
            for name in changed.get(key, ()):
                since, _ = self._nodes[name].labels[key]
                if left_s(within_s, now - since):
                    yield name, now - since

    def unready(self) -> Iterator[tuple[str, float]]:
        """Yield the nodes that are not Ready, with for how long."""
        for name in self._unready:
            yield name, self.ready_s(name)

    def without(self, key: str) -> Iterator[tuple[str, str, float]]:
        """Yield the nodes that have lost a label, with its last value and for how long."""
        now = self._clock()
        for name in self._without.get(key, ()):
            since, value = self._nodes[name].labels[key]
            if value is not None:
                yield name, value, now - since

    def _note_labels(self, times: NodeTimes, old: Node, new: Node, now: float) -> None:
        for key in old.labels.keys() | new.labels.keys():
            if (value := old.labels.get(key)) != new.labels.get(key):
                times.labels.pop(key, None)
                times.labels[key] = now, value
                self._found_again(key, new.name)
                changed = self._relabelled if key in new.labels else self._without
                changed.setdefault(key, {})[new.name] = None
        while times.labels and (
            len(times.labels) > MAX_LABELS or next(iter(times.labels.values()))[0] < now - LONGEST_S
        ):
            oldest = next(iter(times.labels))
            del times.labels[oldest]
            self._found_again(oldest, new.name)

    def _found_again(self, key: str, name: str) -> None:
        for changed in (self._without, self._relabelled):
            names = changed.get(key, {})
            names.pop(name, None)
            if not names:
                changed.pop(key, None)

    def _note_opened(self, name: str, times: NodeTimes, since: float) -> None:
        """Note when a node opened; drop those that did so too long ago to matter."""
        times.opened = since
        earliest = self._clock() - LEFT_PODS_KEPT_S
        while self._opened and next(iter(self._opened.values())) < earliest:
            del self._opened[next(iter(self._opened))]
        self._opened.pop(name, None)
        if since > earliest:
            self._opened[name] = since


def _opens(old: Node, new: Node) -> bool:
    """Say whether a node takes pods that it did not take before, whatever their labels."""
    if new.is_ready and not old.is_ready:
        return True
    if old.unschedulable and not new.unschedulable:
        return True
    return old.taints != new.taints and any(
        taint.effect != PREFER_NO_SCHEDULE and taint not in new.taints for taint in old.taints
    )


def _with_times(node: Node) -> Iterable[tuple[Taint, int | None]]:
    """Pair each taint with the time at which it was added, where the API server says it."""
    if not node.taints_added_s:
        return ((taint, None) for taint in node.taints)
    return zip(node.taints, node.taints_added_s, strict=True)


def _with_changes(node: Node) -> Iterable[tuple[str, str, int | None]]:
    """Yield the type and status of each condition, and when that last changed where it is said."""
    times = node.conditions_changed_s or (None,) * len(node.conditions)
    for (kind, status), changed_s in zip(node.conditions, times, strict=True):
        yield kind, status, changed_s


def _note_conditions(times: NodeTimes, old: Node, new: Node, now: float) -> None:
    """Note which conditions have another status.

    Another `lastTransitionTime` alone is none: the node-problem-detector sets that also where only
    the reason of a condition changes. One that is not reported any more has the empty status, until
    it is forgotten with its node or as many others were reported since.
    """
    before, after = dict(old.conditions), dict(new.conditions)
    noted = dict(times.conditions)
    for kind in before.keys() - after.keys():
        noted[kind] = with_change(noted.pop(kind, ()), now, "")
    for kind, status in after.items():
        if before.get(kind) != status:
            noted[kind] = with_change(noted.get(kind, ()), now, status)
    gone = [kind for kind in noted if kind not in after]
    for kind in gone[: max(0, len(noted) - MAX_CONDITIONS)]:
        del noted[kind]
    times.conditions = noted


class NodeStore:
    """All nodes by name, and which of them are eligible.

    A node is eligible when it is ready and matches the policy's node selector: as in the SIG
    descheduler, pods on other nodes are neither judged nor evicted. `standing` says since when they
    are as they are, and `closings` when nodes were closed.
    """

    def __init__(
        self,
        selector: Selector,
        hooks: IndexHooks,
        standing: NodeChangeTimes,
        closings: NodeClosings,
    ) -> None:
        self._selector = selector
        self._hooks = hooks
        self.standing = standing
        self.closings = closings
        self._records: dict[str, NodeRecord] = {}
        self.eligible_count = 0

    @property
    def selector(self) -> Selector:
        """The policy's node selector."""
        return self._selector

    def __len__(self) -> int:
        return sum(record.node is not None for record in self._records.values())

    def __iter__(self) -> Iterator[Node]:
        return (record.node for record in self._records.values() if record.node is not None)

    def get(self, key: str, /) -> Node | None:
        """Return the Node of this name."""
        record = self._records.get(key)
        return None if record is None else record.node

    def keys(self) -> list[str]:
        """Return a snapshot of the names of all Nodes."""
        return [node.name for node in self]

    def names(self) -> list[str]:
        """Return a snapshot of every node name of which something is known."""
        return list(self._records)

    def info(self, name: str) -> NodeRecord | None:
        """Return what is known of a node name, for reading."""
        return self._records.get(name)

    def infos(self) -> Iterable[NodeRecord]:
        """Return what is known of every node name, for reading."""
        return self._records.values()

    def record(self, name: str) -> NodeRecord:
        """Return the record of a node name, made when first asked for."""
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = NodeRecord(name)
        return record

    def remove_if_empty(self, record: NodeRecord) -> None:
        """Drop a record with neither Node nor pods, so that names do not pile up."""
        if record.is_empty:
            self._records.pop(record.name, None)

    def set_selector(self, selector: Selector) -> Iterator[list[Change]]:
        """Replace the policy's node selector; return the steps in which nodes follow it.

        Each is of one node, and returns what differs if it became eligible or ceased to be. What is
        stored between two steps follows the new selector at once.
        """
        self._selector = selector
        return map(self._follow_selector, self.names())

    def _follow_selector(self, name: str) -> list[Change]:
        record = self._records.get(name)
        if record is None or (old := record.state) is None:
            return []
        self._set_eligible(record, old.node)
        if record.eligible == old.eligible:
            return []
        change = NodeAdded(name) if record.eligible else NodeGone(name)
        return [change, *self._hooks.call(self._hooks.node, old, record.state)]

    def upsert(self, node: Node) -> list[Change]:
        """Store a Node unless a later version of it is known; return the changes."""
        record = self.record(node.name)
        old, before = record.node, record.state
        if old is not None and old.uid == node.uid and _is_older(node, old):
            return []
        record.node = node
        self._set_eligible(record, node)
        if old is not None and _equivalent(old, node):
            if old.taints_added_s != node.taints_added_s:
                self.standing.follow(old, node)
            return self._hooks.call(self._hooks.node_version, before, record.state)
        self.standing.follow(old, node)
        self.closings.follow(old, node, record.active)
        was_eligible = before is not None and before.eligible
        changes: list[Change] = []
        if record.eligible:
            if old is not None and was_eligible:
                changes += _differences(old, node)
            else:
                changes.append(NodeAdded(node.name))
        else:
            if was_eligible:
                changes.append(NodeGone(node.name))
            changes += _capacity_gains(old, node)
        return changes + self._hooks.call(self._hooks.node, before, record.state)

    def remove(self, node: Node) -> list[Change]:
        """Remove a Node, unless its name belongs to another uid by now; return the changes."""
        record = self._records.get(node.name)
        if (
            record is None
            or (before := record.state) is None
            or (node.uid and before.node.uid != node.uid)
        ):
            return []
        self.closings.follow(before.node, None, record.active)
        record.node, record.eligible = None, False
        self.eligible_count -= before.eligible
        self.standing.forget(node.name)
        self.remove_if_empty(record)
        changes: list[Change] = [NodeGone(node.name)] if before.eligible else []
        return changes + self._hooks.call(self._hooks.node, before, None)

    def _set_eligible(self, record: NodeRecord, node: Node) -> None:
        was_eligible = record.eligible
        record.eligible = node.is_ready and self._selector.matches(node.labels)
        self.eligible_count += record.eligible - was_eligible


def _is_older(new: Node, old: Node) -> bool:
    return 0 < new.resource_version < old.resource_version


def _equivalent(old: Node, new: Node) -> bool:
    """Say whether two records of a Node mean the same to every pod, as after a heartbeat."""
    return (
        old.uid == new.uid
        and (old.is_ready, old.unschedulable) == (new.is_ready, new.unschedulable)
        and (old.labels is new.labels or old.labels == new.labels)
        and old.taints == new.taints
        and (old.conditions is new.conditions or old.conditions == new.conditions)
        and (old.allocatable is new.allocatable or old.allocatable == new.allocatable)
        and old.load_capacity == new.load_capacity
        and old.declared_features == new.declared_features
        and old.images == new.images
        and _metadata(old) == _metadata(new)
    )


def _metadata(node: Node) -> tuple[str | bool | None, ...]:
    opt_outs = node.do_not_evict, node.do_not_disrupt, node.scale_down_disabled
    return *opt_outs, node.drain, node.drained, node.is_terminating


def _capacity_gains(old: Node | None, new: Node) -> Iterator[Change]:
    """Report added capacity of an ineligible node: the evictor's node fit may look there, too."""
    if new.is_ready and (
        old is None
        or not old.is_ready
        or any(not isinstance(c, _NO_GAIN) for c in _differences(old, new))
    ):
        yield NodeCapacityIncreased(new.name)


def _differences(old: Node, new: Node) -> Iterator[Change]:
    if old.taints != new.taints:
        yield NodeTaintsChanged(new.name)
    if old.conditions != new.conditions:
        yield NodeConditionsChanged(new.name)
    if old.labels != new.labels:
        yield NodeLabelsChanged(new.name, changed_keys(old.labels, new.labels))
    if _metadata(old) != _metadata(new):
        yield NodeMetadataChanged(new.name)
    if old.unschedulable != new.unschedulable or old.allocatable != new.allocatable:
        yield from _capacity_changes(old, new)


def _capacity_changes(old: Node, new: Node) -> Iterator[Change]:
    resources = old.allocatable.keys() | new.allocatable.keys()
    grew = [r for r in resources if new.allocatable.get(r, 0) > old.allocatable.get(r, 0)]
    shrank = [r for r in resources if new.allocatable.get(r, 0) < old.allocatable.get(r, 0)]
    if grew or (old.unschedulable and not new.unschedulable):
        yield NodeCapacityIncreased(new.name)
    if shrank or (new.unschedulable and not old.unschedulable):
        yield NodeCapacityDecreased(new.name)


def changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    """Name the labels that were added, removed or altered."""
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
