"""Lets the pods of a gang leave all together, or none of them, where `guards.gangs` allows that.

A plugin finds one pod of a gang. All gates are asked for it, and then for each other pod of the
gang: what protects one of them keeps all. What only sets the pace counts for the first, and its
tokens are taken for all, so that other pods wait for longer afterwards. One gang moves at a time,
and of those that may move the one whose pods cost least to move is the first.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.plugin import Opinions
from reactive_desched.gate.approval import APPROVAL_GATE
from reactive_desched.gate.evictor import NodeFitFilter
from reactive_desched.gate.rate_limits import RATE_LIMITED
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Defer, GateReason, Refuse, WaitEnd, silent_end
from reactive_desched.model.findings import GANG, Finding, GangMove, RequeueAfter
from reactive_desched.model.gangs import Gang
from reactive_desched.model.history import PastEviction
from reactive_desched.model.move_cost import move_cost
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.opt_outs import EVICT, EvictWish, evict_wish
from reactive_desched.model.scheduling import tolerates_all
from reactive_desched.model.wakes import WakeOn, WakeOnEviction, WakeOnPod
from reactive_desched.moves.limits import TOO_MANY_MOVING
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.gangs import Gangs, WakeOnGang
from reactive_desched.text.counts import format_count

GANG_GATE: Final = "GangMoves"

MAX_GANG_PODS: Final = 500
"""A gang of more pods is kept: while all gates are asked for all of them nothing else happens.

It takes 0.3 ms for each.
"""

GATHER_S: Final = 5.0
"""For so long other gangs that may move are waited for, so that the cheapest is the first."""

READY_S: Final = 120.0
"""A gang that could move so long ago, and not again since, is waited for no more."""

RETRY_S: Final = 30.0

REST_S: Final = 600.0
"""For so long after a gang began to leave a pod of it that is left behind is moved after it."""

LOOK_AGAIN_S: Final = 2.0
"""After so long it is looked at again whether the others have left."""

MAX_READY: Final = 1_000
"""So many gangs at most are compared; beyond that the one seen first is forgotten."""

PACE: Final = frozenset({TOO_MANY_MOVING.gate, RATE_LIMITED.gate, APPROVAL_GATE})
"""The gates that are asked for the first pod of a gang alone, as it stands for all of them."""

MEMBER_KEPT: Final = GateReason(
    GANG_GATE,
    "GangMemberKept",
    "All pods of a gang leave together or none does, and a gate keeps another one of them: the "
    "message has that pod, the gate, and what it says.",
)
OTHER_GANG: Final = GateReason(
    GANG_GATE,
    "OtherGangMoves",
    "The pod is one of a gang, and the pods of another gang are moving: one gang at a time.",
)
CHEAPER_GANG: Final = GateReason(
    GANG_GATE,
    "CheaperGangFirst",
    "The pod is one of a gang, and another gang that may move costs less to move: it is the first.",
)
GANGS_GATHERED: Final = GateReason(
    GANG_GATE,
    "GangsGathered",
    "For a moment the controller finds out which other gangs have to move, so that the one whose "
    "move costs least is the first.",
)
GANG_TOO_LARGE: Final = GateReason(
    GANG_GATE,
    "GangTooLarge",
    f"The pod is one of a gang of more than {MAX_GANG_PODS} pods, which is not moved as a whole: "
    "its own controller has to restart it, or a person lets its pods go one by one.",
    keeps=True,
)


class _Ready(Struct, frozen=True):
    """A gang that may move: since when, when that was last so, and what its move costs."""

    since: float
    seen_at: float
    cost: float


class _Unfinished(Struct, frozen=True):
    """A gang that began to leave: when, which pods, and what was found of each.

    Where an earlier process began it, `pods` are those that it asked to leave, and all that were
    created until `before_s` were to leave with them, by what this plugin found in this profile.
    """

    at: float
    pods: frozenset[PodKey]
    findings: Mapping[PodKey, Finding] = {}
    before_s: float = 0.0
    plugin: str = ""
    profile: str = ""

    def has(self, pod: Pod) -> bool:
        """Say whether the pod was to leave with the others."""
        return pod.uid in self.pods or pod.created_s <= self.before_s


class GangMoves:
    """The gangs of one controller's evictions; times are monotonic seconds."""

    name = GANG_GATE
    indexes = (Gangs,)

    def __init__(
        self,
        view: ClusterView,
        ledger: EvictionLedger,
        settings: GuardSettings,
        balancing: frozenset[str],
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._ready: dict[Gang, _Ready] = {}
        self._moving: tuple[str, tuple[PodKey, ...]] | None = None
        self._unfinished: dict[str, _Unfinished] = {}
        self.reconfigure(settings, balancing)

    def reconfigure(self, settings: GuardSettings, balancing: frozenset[str]) -> None:
        """Apply other settings; `balancing` names the plugins that balance the cluster."""
        self._settings = settings
        self._balancing = balancing
        self._ready.clear()

    def widened(self, finding: Finding) -> Finding:
        """Return a finding with the gang that leaves with its pod, if that is allowed.

        It is not for a plugin that balances the cluster: what runs together would begin anew, and
        nothing is wrong where it is.
        """
        settings = self._settings
        if finding.gang is not None:
            return finding
        if settings.gangs != "together" or finding.plugin in self._balancing:
            return finding
        pod = finding.pod
        if pod.has_ended or evict_wish(pod.annotations.evict) is EvictWish.PASSES:
            return finding  # it loses nothing, or its owner lets it go alone
        if not settings.holds(GuardName.GANGS, finding.plugin):
            return finding
        gangs = self._view.index(Gangs)
        if (gang := gangs.of(finding.pod)) is None:
            return finding
        if self._has_left_behind(gang, finding.pod):
            message = f"{finding.message}; others of {gang.title} have left, and it follows"
            details = {**finding.details, GANG: str(gang)}
            move = GangMove(gang, (finding.pod.uid,), is_rest=True)
            return replace(finding, message=message, details=details, gang=move)
        others = [uid for uid in gangs.pods_of(gang) if uid != finding.pod.uid]
        if not others or gangs.spares(gang, finding.pod, self._leaves):
            return finding
        move = GangMove(gang, (finding.pod.uid, *others))
        pods = format_count(len(move.pods), "pod")
        message = f"{finding.message}; all {pods} of {gang.title} leave together"
        details = {**finding.details, GANG: str(gang), "gangPods": len(move.pods)}
        return replace(finding, message=message, details=details, gang=move)

    def companions(self, finding: Finding) -> Iterator[Finding]:
        """Yield what is asked about each other pod of a gang, but for those that leave already."""
        assert finding.gang is not None, "it was widened"
        first = finding.pod
        for uid in finding.gang.pods[1:]:
            pod = self._view.pod(uid)
            if pod is not None and not pod.is_terminating and self._ledger.current(uid) is None:
                message = f"leaves with {first.namespace}/{first.name}: {finding.message}"
                yield Finding(
                    pod,
                    finding.plugin,
                    message,
                    needs_fit=finding.needs_fit,
                    details=finding.details,
                    options=finding.options,
                    gang=finding.gang,
                )

    def left_behind(self, pod: PodKey, now: float) -> Opinions:
        """Find a pod again whose eviction failed while others of its gang left.

        Else it would wait for them, or they for it. It is looked for as long as the gang counts as
        leaving, `REST_S`.
        """
        there = self._view.pod(pod)
        gang = None if there is None else self._view.index(Gangs).of(there)
        if there is None or gang is None:
            return
        began = self._unfinished.get(str(gang))
        if began is None or not began.has(there) or now - began.at >= REST_S:
            return
        if self._has_left_behind(gang, there):
            found = began.findings.get(pod)
            if found is None:
                found = Finding(there, began.plugin, f"{gang.title} leaves as a whole")
            yield replace(found, pod=there, gang=None)
        elif any(self._ledger.current(uid) is not None for uid in began.pods):
            yield RequeueAfter(LOOK_AGAIN_S)

    def _has_left_behind(self, gang: Gang, pod: Pod) -> bool:
        """Say whether others of the gang have left, with which the pod was to leave."""
        began = self._unfinished.get(str(gang))
        if began is None or not began.has(pod) or pod.is_terminating:
            return False
        others = (self._view.pod(uid) for uid in began.pods if uid != pod.uid)
        return any(each is None or each.is_terminating for each in others)

    def restore(self, past: Sequence[PastEviction], now: float, wall_now: float) -> None:
        """Go on with the gangs that an earlier process moved; `past` are in their order."""
        by_gang: dict[str, list[PastEviction]] = {}
        for each in past:
            if each.gang and wall_now - each.requested_s < REST_S:
                by_gang.setdefault(each.gang, []).append(each)
        for name, evictions in by_gang.items():
            first, pods = evictions[0], tuple(each.pod_uid for each in evictions)
            self._moving = f"gang {name}", pods
            self._unfinished[name] = _Unfinished(
                now - max(0.0, wall_now - first.requested_s),
                frozenset(pods),
                before_s=first.began_s or first.requested_s,
                plugin=first.plugin,
                profile=first.profile,
            )

    def restored_rest(self, plugin: str, profile: str) -> Iterator[PodKey]:
        """Yield the pods that an earlier process may have left behind, by what a plugin found."""
        for gang in list(self._view.index(Gangs).gangs):
            began = self._unfinished.get(str(gang))
            if began is None or (began.plugin, began.profile) != (plugin, profile):
                continue
            for uid in list(self._view.index(Gangs).pods_of(gang)):
                pod = self._view.pod(uid)
                if pod is not None and began.has(pod):
                    yield uid

    def not_asked(self, pod: Pod) -> frozenset[str]:
        """Return the gates that are not asked of a pod that leaves with another one.

        They are those of the pace, and node fit where the node of the pod still takes such pods:
        it is a place for the next one.
        """
        info = self._view.node_info(pod.node)
        node = None if info is None else info.node
        if node is None or node.unschedulable or not node.is_ready:
            return PACE
        if not tolerates_all(pod.spec.tolerations, node.taints):
            return PACE
        return PACE | {NodeFitFilter.name}

    def blocks(self, finding: Finding, now: float) -> Refuse | None:
        """Return what keeps a gang whatever its pods are: its size, or another one that moves."""
        assert finding.gang is not None, "it was widened"
        gang, wakes = finding.gang.gang, (WakeOnPod(finding.pod.uid),)
        if (count := len(finding.gang.pods)) > MAX_GANG_PODS:
            message = (
                f"{gang.title} has {count} pods, and no gang of more than {MAX_GANG_PODS} is moved "
                f"as a whole: have its controller restart it, or let its pods go one by one by the "
                f'annotation {EVICT}: "true"'
            )
            return GANG_TOO_LARGE.refuse(finding, message, (*wakes, WakeOnGang(gang)))
        if self._moving is None:
            return None
        other, pods = self._moving
        left = [uid for uid in pods if self._ledger.current(uid) is not None]
        if not left:
            self._moving = None
            return None
        waiting = format_count(len(left), "pod", "is", "are")
        message = f"{other} moves first, one gang at a time: {waiting} not replaced yet"
        wakes_of_others = tuple(map(WakeOnEviction, left[:1]))
        return OTHER_GANG.refuse(
            finding, message, (*wakes, *wakes_of_others), now + RETRY_S, turn=_row(gang)
        )

    def kept(self, finding: Finding, by: Defer | Refuse, now: float) -> Refuse:
        """Return that the gates keep another pod of the gang, and so all of them.

        Room is looked for again after a time: what was reserved for the others is free again now.
        """
        assert finding.gang is not None, "it was widened"
        gang, pod = finding.gang.gang, by.finding.pod
        message = (
            f"all {len(finding.gang.pods)} pods of {gang.title} leave together or none"
            f" does, and {pod.namespace}/{pod.name} is kept by {by.gate}: {by.message}"
        )
        wakes: tuple[WakeOn, ...] = (
            WakeOnPod(finding.pod.uid),
            WakeOnPod(pod.uid),
            WakeOnGang(gang),
        )
        retry_at_s = by.retry_at_s
        if by.gate == NodeFitFilter.name:
            retry_at_s = now + RETRY_S
        elif isinstance(by, Refuse):
            wakes = tuple(dict.fromkeys((*wakes, *by.wake_on)))
        refusal = MEMBER_KEPT.refuse(
            finding, message, wakes, retry_at_s, setting=by.setting, turn=by.turn
        )
        return replace(refusal, keeps=by.keeps).ending(by.end)

    def waits(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Let a gang that may move wait for one that costs less, if there is one."""
        assert finding.gang is not None, "it was widened"
        gang = finding.gang.gang
        self._ready = {of: each for of, each in self._ready.items() if now - each.seen_at < READY_S}
        before = self._ready.pop(gang, None)
        while len(self._ready) >= MAX_READY:
            del self._ready[next(iter(self._ready))]
        since = now if before is None else before.since
        self._ready[gang] = _Ready(since, now, self._cost(finding.gang.pods))
        if (at := since + GATHER_S) > now:
            message = (
                f"for {GATHER_S:g} s the controller finds out which gangs besides {gang.title} "
                "have to move: the one whose move costs least is the first"
            )
            return GANGS_GATHERED.defer(finding, message, at, turn=_row(gang), end=silent_end(at))
        first = min(self._ready, key=lambda of: (self._ready[of].cost, of))
        if first == gang:
            return None
        message = f"{first.title} is the first, as its move costs less than that of {gang.title}"
        wakes = (WakeOnPod(finding.pod.uid),)
        at = now + RETRY_S
        refusal = CHEAPER_GANG.refuse(finding, message, wakes, at, turn=_row(gang))
        return refusal.ending(WaitEnd(f"; {gang.title} is evaluated again", at))

    def begin(self, finding: Finding, companions: Sequence[Finding], now: float) -> None:
        """Note a gang whose pods leave now."""
        assert finding.gang is not None, "it was widened"
        gang = finding.gang.gang
        self._ready.pop(gang, None)
        self._moving = gang.title, finding.gang.pods
        self._unfinished = {
            of: each for of, each in self._unfinished.items() if now - each.at < REST_S
        }
        found = {each.pod.uid: each for each in (finding, *companions)}
        self._unfinished[str(gang)] = _Unfinished(now, frozenset(found), found)

    def _leaves(self, pod: PodKey) -> bool:
        return self._ledger.current(pod) is not None

    def _cost(self, pods: Sequence[PodKey]) -> float:
        return sum(move_cost(pod) for uid in pods if (pod := self._view.pod(uid)) is not None)


def _row(gang: Gang) -> str:
    return f"the gangs before {gang}"
