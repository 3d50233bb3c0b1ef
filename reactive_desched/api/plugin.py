"""The contract of a plugin on one screen: what it sees, what changes it reacts to, what it finds.

A plugin answers two questions: which subjects may a change concern, and what is wrong with a
subject now? It never evicts, waits, reads a clock or calls a server. The same code serves the
reactive path, the sweep and `plan`, so a finding depends on the view and the arguments alone.
The usual kind, which judges pods by the node they are on, is a PodPlugin.
"""

from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.index import Index, IndexT
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.errors import EvaluationEndless
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeChange,
    PodBound,
    PodChange,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodsChange,
    PodStatusChanged,
    Resynced,
)
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import UseChange
from reactive_desched.primitives.timers import DebounceConfig


class View(Protocol):
    """The cluster as the plugins of one profile see it: read-only, and only eligible nodes.

    A node is eligible when it is ready and matches the policy's node selector; pods on other
    nodes are not seen.
    """

    @property
    def now_s(self) -> float:
        """The time of this evaluation, in seconds since the epoch (UTC)."""
        ...

    def nodes(self) -> Iterable[Node]:
        """Return the eligible nodes."""
        ...

    def node_names(self) -> Iterator[str]:
        """Yield the names of the eligible nodes; whether a node is one is asked at its turn."""
        ...

    def pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and its active pods, or None when the node is not eligible."""
        ...

    def active_pod(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it is on no eligible node."""
        ...

    def all_pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and pods in any phase, or None when the node is not eligible."""
        ...

    def pod_and_node(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it is on no eligible node."""
        ...

    # --- what depends on the mode and the profile ---

    def taint_counts(self, taint: Taint) -> bool:
        """Say whether a taint may be a reason to evict.

        In reactive mode the settings leave alone what cordons, autoscalers and maintenance set, and
        what systems take off again by themselves.
        """
        ...

    def taint_wait_s(self, node: Node, taint: Taint) -> float:
        """Return for how long a taint must still last on its node before it is a reason to evict.

        A finding that waits says from when it counts, and is held until then. Zero in a sweep.
        """
        ...

    def condition_wait_s(
        self, node: Node, kind: str, status: str, standing_s: float, lapse_s: float
    ) -> float | None:
        """Return for how long a condition must still last until it has lasted for `standing_s`.

        None where it has another status. Times with another status of `lapse_s` at most do not
        interrupt it. The same holds in a sweep.
        """
        ...

    def label_wait_s(self, node: Node, key: str) -> float:
        """Return the same for a label of a node as it is, or its absence."""
        ...

    def ready_wait_s(self, node: Node) -> float:
        """Return the same for a Ready node, whose pods restarted while it was not."""
        ...

    def match_wait_s(self, pod: Pod, selector: LabelSelector) -> float:
        """Return the same for labels of a pod that a selector matches."""
        ...

    def state_wait_s(self, since_s: float) -> float:
        """Return the same for a state that a pod has had since then, in seconds since the epoch."""
        ...

    def use_changes(self, node: Node) -> Sequence[UseChange]:
        """Return which pods came to a node or left it a moment ago, the latest first.

        By these its use is so recent that it may pass: no reason to move others. None in a sweep.
        """
        ...

    def departures(self) -> Iterator[UseChange]:
        """Yield the pods that left any node a moment ago, the latest first: they may come back.

        To be read at once, as further ones may leave. None in a sweep.
        """
        ...

    def absent_nodes(self, topology_key: str) -> Iterator[tuple[str, float, Iterable[Pod]]]:
        """Yield the nodes that are away and may be back soon: not Ready, or without this label.

        Each is given by the value of the label, for how many seconds it is waited for at most, and
        its active pods. None in a sweep.
        """
        ...

    def evictable(self, pod: Pod) -> bool:
        """Say whether the pod passes every filter of the profile's evictor (upstream's Filter).

        The answer is kept from the first question on; PodEvictabilityChanged reports a new one.
        """
        ...

    def prefers_no_eviction(self, pod: Pod) -> bool:
        """Say whether the pod asks by its annotation to be evicted after others.

        In a sweep it does with any value, as upstream; in reactive mode not with one that says no.
        """
        ...

    def why_protected(self, pod: Pod) -> tuple[str, str] | None:
        """Return the name of the evictor's filter that protects the pod, and what it says.

        None for a pod that is evictable. It is for people: nothing is kept.
        """
        ...

    def replicas_wanted(self, owner_uid: str, /) -> int | None:
        """Return how many pods the Deployment or StatefulSet of this uid wants; None if not known.

        The uid may be that of a ReplicaSet, whose Deployment is asked.
        """
        ...

    def passes_pre_eviction(self, pod: Pod) -> bool:
        """Say whether the pod passes what the evictor checks last (upstream's PreEvictionFilter).

        That is the node fit, if the evictor asks for it, and the labels of the pod's namespace.
        """
        ...

    def is_leaving(self, pod: Pod) -> bool:
        """Say whether the pod is terminating, or its eviction is under way."""
        ...

    def find_any_node(self, pod: Pod) -> str | None:
        """Name an eligible node that fits the pod, its own included."""
        ...

    def find_other_node(self, pod: Pod) -> str | None:
        """Name a ready node of the evictor's selection, other than its own, that fits the pod."""
        ...

    def find_node_among(self, pod: Pod, nodes: Collection[str]) -> str | None:
        """Name one of these nodes, other than its own, that fits the pod."""
        ...

    def why_unfit(self, pod: Pod, nodes: Collection[str]) -> str:
        """Say why none of these nodes fits the pod; empty where one does. It is for people."""
        ...

    def reserved_by_node(self) -> Mapping[str, ResourceList]:
        """Sum what is reserved for replacements of evicted pods, by the node they are to land on.

        Nothing is reserved in a sweep that decides as the SIG descheduler.
        """
        ...

    def awaiting_replacement(self, owner_uid: str) -> Iterable[Pod]:
        """Return the evicted pods of a controller for whose replacements capacity is reserved.

        That is until a pod of the controller is bound, or for two minutes; an evicted pod is among
        them while it is still there. In upstream's mode of node fit there are none.
        """
        ...

    def expected_replacements(self, namespace: str) -> Iterable[tuple[Pod, str]]:
        """Return the pods of a namespace that were evicted and not replaced yet.

        With each comes the name of the node on which capacity is reserved for its replacement. A
        pod without such a reservation is not among them; in upstream's mode of node fit none is.
        """
        ...

    def try_moves(self) -> Generator[None, None, MoveTrial]:
        """Begin to try moves, in steps: what was tried before counts no more.

        What is reserved for evicted pods counts.
        """
        ...

    def try_moves_apart(self) -> Generator[None, None, MoveTrial]:
        """Begin as `try_moves`, apart from a plan that may be interrupted: it is for people."""
        ...

    # --- indexes ---

    def index(self, kind: type[IndexT], args: Hashable = None, /) -> IndexT:
        """Return an index; name it in the plugin's `indexes`, or it is built at the first call."""
        ...


MAX_OPINIONS: Final = 500_000
"""A plugin that yields more on one subject does not end, and would fill the memory."""

SubjectT = TypeVar("SubjectT", bound=Hashable)
ArgsT = TypeVar("ArgsT", bound=PluginArgs)


Opinions = Generator[Finding | RequeueAfter | YieldPoint, Decision, None]
"""What a plugin holds about a subject; it receives the decision on each finding."""


class Plugin(ABC, Generic[SubjectT, ArgsT]):
    """One condition under which a pod's place is wrong.

    Base of DeschedulePlugin, which judges subjects one by one, and of BalancePlugin, which plans.
    `name` is what policy files say; `extension_point` is the upstream one it runs at; `reacts_to`
    lists every change that can create or alter a finding. `judges_completed_pods` says that pods
    which have ended are judged as well. `asks_node_fit` is False for a plugin that never asks the
    view for a node, and whose findings do not need one: the controller goes on without the right to
    list what node fit alone reads. `splits_nodes` says that a NodeSubject stands for pods, each of
    which the plugin judges alone as a PodSubject: a blocked finding is then evaluated again by its
    pod. Any other plugin evaluates the subject again that it named itself. `least_debounce` is for
    a plugin whose look at a subject costs much: the subject waits so long, unless the settings have
    other times for this plugin.
    """

    name: ClassVar[str]
    extension_point: ClassVar[str]
    reacts_to: ClassVar[tuple[type[Change], ...]]
    indexes: ClassVar[tuple[type[Index], ...]] = ()
    judges_completed_pods: ClassVar[bool] = False
    asks_node_fit: bool = True
    splits_nodes: ClassVar[bool] = False
    least_debounce: ClassVar[DebounceConfig | None] = None

    def __init__(self, args: ArgsT) -> None:
        self.args = args

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The indexes that the plugin reads, each with its arguments, None for none.

        Override this where an index depends on the plugin's arguments.
        """
        return ((kind, None) for kind in self.indexes)

    @property
    def usage_sources(self) -> Collection[str]:
        """The sources of measured use that the plugin reads, as `NodeUsage.source` names them.

        They are polled while a policy enables the plugin.
        """
        return ()

    @property
    def sick_conditions(self) -> Collection[Condition]:
        """The conditions of nodes, by type and status, that the plugin takes as a reason to evict.

        A node with one counts for the zone brake as one that is not Ready: where many nodes of a
        zone have it, what reports it may be wrong.
        """
        return ()

    def matters(self, change: Change) -> bool:
        """Say cheaply whether a change, one of `reacts_to`, may create a finding or alter one.

        It is asked about every such change, so it looks at the change alone. A pod with a blocked
        finding is evaluated again after each of its changes, whatever the answer.
        """
        del change
        return True

    def describe(self, pod: Pod, view: View) -> str:
        """Say in numbers, on one line, what the plugin sees of a pod with which nothing is wrong.

        `why` prints it. The pod is active, or the plugin judges completed pods, and it is on an
        eligible node. The default says nothing.
        """
        del pod, view
        return ""

    def describe_waiting(self, pod: Pod, view: View) -> str:
        """Say what the plugin does for a pod that waits for a node, or why it can do nothing.

        `why` prints it. The default says nothing: the plugin looks at pods on nodes alone.
        """
        del pod, view
        return ""

    def obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what says of a pod without a finding why it stays though its place is wrong.

        The text is empty where nothing is wrong. `why` and `plan --all` print it, for many pods of
        one moment: what the answers have in common is looked up once.
        """
        del view
        return lambda _: ""

    @abstractmethod
    def subjects(self, change: Change, view: View) -> Iterable[SubjectT]:
        """Name the subjects a change may concern; too many is slow, too few is a bug.

        Those of an `InPortions` are named a portion at a time: the cluster may change between two.
        """

    @abstractmethod
    def evaluate(self, subject: SubjectT, view: View) -> Opinions:
        """Return the plugin's opinions on a subject; what drives it sends back each decision."""

    def still_found(self, finding: Finding, subject: SubjectT, view: View) -> Finding | None:
        """Return a finding as it is now, None where what was wrong is so no more.

        It is asked when the eviction of the pod has been decided, just before it is requested: the
        pod is on its node as it was, `view.is_leaving` says that it leaves, and what was reserved
        for its replacement counts. It takes no longer than a look at one node. The default goes by
        the decision.
        """
        del subject, view
        return finding


class DeschedulePlugin(Plugin[SubjectT, ArgsT]):
    """A condition of single pods, whatever is decided about others."""

    extension_point: ClassVar[str] = "deschedule"

    @abstractmethod
    def judge(self, subject: SubjectT, view: View) -> Iterator[Finding | RequeueAfter]:
        """Say what is wrong with the subject now; the findings are decided in this order."""

    def evaluate(self, subject: SubjectT, view: View) -> Opinions:
        """Judge the whole subject before the first decision, which may change what is iterated."""
        for opinion in self._judge_all(subject, view):  # noqa: UP028 -- a list takes no decision
            yield opinion

    def still_found(self, finding: Finding, subject: SubjectT, view: View) -> Finding | None:
        """Judge the subject again; return what it finds of the same pod."""
        for opinion in self._judge_all(subject, view):
            if isinstance(opinion, Finding) and opinion.pod.uid == finding.pod_found:
                return opinion
        return None

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        """Yield the findings of a full pass in portions, each filtered before its first eviction.

        Override this where upstream does not go subject by subject.
        """
        for subject in self.subjects(Resynced(), view):
            try:
                opinions = self._judge_all(subject, view)
            except BaseException as error:
                error.add_note(_named(subject, view))
                raise
            yield [opinion for opinion in opinions if isinstance(opinion, Finding)]

    def _judge_all(self, subject: SubjectT, view: View) -> list[Finding | RequeueAfter]:
        found = list(islice(self.judge(subject, view), MAX_OPINIONS + 1))
        if len(found) > MAX_OPINIONS:
            raise EvaluationEndless(f"judge yielded more than {MAX_OPINIONS:,} findings")
        return found


def _named(subject: Hashable, view: View) -> str:
    """Name a subject for people."""
    match subject:
        case NodeSubject(node=node):
            return f"node {node}"
        case PodSubject(pod=uid):
            pod = view.active_pod(uid)
            return f"pod {uid if pod is None else pod[0]}"
        case _:
            return type(subject).__name__


def next_opinion(
    opinions: Opinions, decision: Decision | None
) -> Finding | RequeueAfter | YieldPoint | None:
    """Send the decision on the last finding and return the next opinion, or None at the end."""
    try:
        return next(opinions) if decision is None else opinions.send(decision)
    except StopIteration:
        return None


POD_CHANGES_IN_ANY_PHASE: Final = (
    Resynced,
    NodeAdded,
    PodBound,
    PodStatusChanged,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
)
"""What matters to a plugin that judges pods by their own status and age, completed ones as well."""


class PodPlugin(DeschedulePlugin[NodeOrPod, ArgsT]):
    """Judges the pods of a changed node, or the changed pods; every node after other changes."""

    splits_nodes = True

    def subjects(self, change: Change, view: View) -> Iterable[NodeOrPod]:
        """Name the node or the pods the change is about."""
        match change:
            case NodeChange(node=node):
                return (NodeSubject(node),)
            case PodChange(pod=pod):
                return (PodSubject(pod.key),)
            case PodsChange(pods=pods):
                return map(PodSubject, pods)
            case _:
                return map(NodeSubject, view.node_names())
