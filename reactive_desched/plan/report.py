"""The report of a preview, from which table, JSON and YAML are made; see docs/reference/plan.md."""

from collections.abc import Mapping

from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.rule_table import DecisionCounts, ReportPart, RuleTable

__all__ = [
    "API_VERSION",
    "KIND",
    "DecisionCounts",
    "GateRejection",
    "NodeCounts",
    "PlanInputs",
    "PlanReport",
    "PlanSummary",
    "PlannedDecision",
    "PodRef",
    "PolicyRef",
    "RunPreview",
    "UnaffectedPod",
    "UnreadableObject",
]

API_VERSION = "reactive-desched/v1alpha1"
KIND = "Plan"


class PodRef(ReportPart, frozen=True, gc=False):
    """A pod by namespace and name; `uid` is null where the file gave none."""

    namespace: str
    name: str
    uid: str | None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GateRejection(ReportPart, frozen=True, gc=False):
    """A gate that blocks the eviction of a pod: its reason code, and the message for people."""

    gate: str
    reason: str
    message: str


class PlannedDecision(ReportPart, frozen=True, gc=False):
    """One decision: `finding` is why the plugin wants the pod to leave its node.

    `action` is Evict, Refuse or Defer. `gate` and `reason` name the gate that decided and its
    reason code; an eviction has neither, and no rejections. `rejections` has the deciding gate
    first, and then the evictor's other protections, as upstream collects them.

    A preview of the controller has times, in seconds from its beginning: `in_seconds` of an
    eviction, `retry_in_seconds` of the next evaluation of a finding that waits. `delayed_by` says
    what held an eviction before, `waits_for` which changes may end a wait, and `replacement_node`
    where the replacement is taken to run. A finding `may_go_later` if time, or a change of
    something else than its pod, may end its wait.
    """

    action: str
    pod: PodRef
    node: str
    owner: str | None
    profile: str
    plugin: str
    finding: str
    gate: str | None = None
    reason: str | None = None
    rejections: tuple[GateRejection, ...] = ()
    in_seconds: float | None = None
    replacement_node: str | None = None
    delayed_by: tuple[GateRejection, ...] = ()
    waits_for: tuple[str, ...] = ()
    retry_in_seconds: float | None = None
    may_go_later: bool = False


class EmptiedNode(ReportPart, frozen=True, gc=False):
    """A node whose pods leave as one set, from when on, and when it is empty; None: it is not."""

    node: str
    pods: int
    begins_in_seconds: float
    empty_in_seconds: float | None


class MadeRoom(ReportPart, frozen=True, gc=False):
    """A pod that waits and for which others move: where, how many, from when on.

    `bound_in_seconds` is when it is bound; None: it is not.
    """

    pod: str
    node: str
    pods: int
    begins_in_seconds: float
    bound_in_seconds: float | None


class RunPreview(ReportPart, frozen=True, gc=False):
    """The bounds of a preview of the controller, its assumptions, and when and why it ended.

    Each replacement is taken to be Ready `ready_after_seconds` after it is bound. Limits and the
    memory of moves count `past_evictions` of a journal. The kube-scheduler is taken to pack nodes
    by `packed_resources`; where there are none, it spreads pods as by default. `modes` names the
    plugins whose findings are not carried out, as PROFILE/PLUGIN (MODE). `emptied_nodes` are those
    that are emptied as a whole, `made_rooms` the pods for which MakeRoomForPending makes room.
    """

    horizon_seconds: float
    max_evictions: int
    ready_after_seconds: float
    past_evictions: int
    packed_resources: tuple[str, ...]
    ended_after_seconds: float
    ended: str
    modes: tuple[str, ...] = ()
    emptied_nodes: tuple[EmptiedNode, ...] = ()
    made_rooms: tuple[MadeRoom, ...] = ()


class UnaffectedPod(ReportPart, frozen=True, gc=False):
    """A pod without a decision.

    `looked_at_by` names the plugins that judged it and found nothing, as profile/plugin. `reason`
    is a code, `message` for people.
    """

    pod: PodRef
    node: str
    owner: str | None
    looked_at_by: tuple[str, ...]
    reason: str
    message: str


class PlanSummary(ReportPart, frozen=True, gc=False):
    """Decisions counted; one pod may be refused to several plugins."""

    total: DecisionCounts
    by_plugin: Mapping[str, DecisionCounts]
    by_profile: Mapping[str, DecisionCounts]
    by_node: Mapping[str, DecisionCounts]
    by_namespace: Mapping[str, DecisionCounts]
    by_gate: Mapping[str, int]


class PolicyRef(ReportPart, frozen=True, gc=False):
    """A policy; `revision` is the beginning of the SHA-256 of the text it was read from.

    The `settings` of another file count in place of those that stand in the policy's.
    """

    file: str
    revision: str
    settings: str | None = None


class NodeCounts(ReportPart, frozen=True, gc=False):
    """The number of all nodes, and of those that are ready and that the policy selects."""

    total: int
    counting: int


class UnreadableObject(ReportPart, frozen=True, gc=False):
    """An object that could not be decoded and was left out."""

    kind: str
    name: str
    message: str


class PlanInputs(ReportPart, frozen=True, gc=False):
    """The files, the `server` of a live cluster, or the `recording` that was judged, and the time.

    `last_change` is when the recorded cluster last changed before that time.
    `whole` is false when objects are known to be missing: `unread_count` of them could not be
    read, of which `unread` names the first hundred, or a list was one page of several. `objects`
    counts what else was read, by resource, `ignored` what is of no interest, by kind; `repeated`
    counts objects given again.
    """

    now: str
    files: tuple[str, ...]
    server: str | None
    policy: PolicyRef
    node_fit: str
    passes: int
    whole: bool
    nodes: NodeCounts
    pods: int
    objects: Mapping[str, int]
    ignored: Mapping[str, int]
    repeated: int
    unread_count: int
    unread: tuple[UnreadableObject, ...]
    recording: str | None = None
    last_change: str | None = None


class PlanReport(ReportPart, frozen=True, gc=False, kw_only=True):
    """A whole preview: decisions in the order in which they are made.

    `mode` is whose decisions they are; those of the controller come with `preview`. `only` has the
    filters that were given, and `matching_pods` counts the pods that they leave.
    `failed_plugins` are those that raised an exception or were ended, by profile and name.
    `obstacles` say of plugins that compare nodes why they move nothing, where no pod leaves.
    `skipped` says why nothing was judged at all, if so. `others` has the pods about which nothing
    was decided, and `nodes` the tables that `nodes` shows; each null where it was not asked for.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    mode: PlanMode
    preview: RunPreview | None = None
    only: Mapping[str, tuple[str, ...]] = {}
    matching_pods: int
    looked_at: PlanInputs
    warnings: tuple[str, ...] = ()
    failed_plugins: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    skipped: str | None
    decisions: tuple[PlannedDecision, ...]
    others: tuple[UnaffectedPod, ...] | None = None
    nodes: tuple[RuleTable, ...] | None = None
    summary: PlanSummary

    @property
    def names_no_pod(self) -> bool:
        """Say whether it was asked about pods by name, and there are none of them."""
        return "pods" in self.only and not self.matching_pods
