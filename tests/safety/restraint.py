"""What holds back a request: brakes, schedules, opt-outs, guards, and the memory of moves.

Each rule is a function that yields what it finds wrong. A decision holds for DECISION_TTL_S, so a
rule counts what held for at least so long.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from reactive_desched.controller.outdated_decisions import DECISION_TTL_S
from reactive_desched.model.brakes import CLUSTER, HEALTH_PREFIX, PENDING, STORM
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import EvictionRequest
from reactive_desched.moves.limits import count_of
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.objects import Obj
from tests.safety.knowledge import Knowledge, controller_uid, is_rolling_out, opted_out_until

if TYPE_CHECKING:
    from tests.safety.referee import Eviction, Referee
    from tests.safety.world import Life, World

SLACK: Final = 1e-6
OLD_S: Final = DECISION_TTL_S + SLACK
"""What has held for so long held when the decision was made."""

TAINTS_PLUGIN: Final = "RemovePodsViolatingNodeTaints"
CLOSED_MINUTES, CLOSED_EVERY_MINUTES = 3, 10
"""Where a story has a schedule, it is open in the first 3 of every 10 minutes."""

TOO_MANY_UNREADY: Final = 3
"""A zone of which so many nodes are not Ready may be disrupted."""

SINGLE_TIMEOUT_S: Final = 300.0

CHOOSES_TARGETS: Final = ("RemoveDuplicates",)
"""The plugins of stories that choose to which nodes pods may go."""

GATHER_S: Final = 1.0
"""So long findings on the pods of a StatefulSet are gathered before the first of them leaves."""

TURN_S: Final = 5.0
"""So long a pod of a StatefulSet holds up those of lower ordinals."""


class Asked(NamedTuple):
    """A request, the process that sends it, and what that knows of its pod."""

    request: EvictionRequest
    place: "Eviction"
    pod: Obj
    life: "Life"
    world: "World"
    now: float

    @property
    def told(self) -> Knowledge:
        return self.life.told

    @property
    def referee(self) -> "Referee":
        return self.world.referee

    def is_on(self, guard: GuardName) -> bool:
        return self.world.config.settings.guards.holds(guard, self.place.plugin)

    def clock_was_set(self, within_s: float = inf) -> bool:
        return any(self.now - at <= within_s for at, _ in self.world.clock_steps)


def pauses(asked: Asked) -> Iterator[str]:
    if asked.world.is_paused:
        yield "paused by command"
    if asked.world.pause_file:
        yield "paused by file"


def brakes(asked: Asked) -> Iterator[str]:
    """Storms, Pending pods and moves in vain: what the process says, and what it was told."""
    controller = asked.life.controller
    for each in controller.gates.brakes.states(asked.now):
        held = asked.request.namespace in whom(each.scope, asked.told)
        if (each.name in (STORM, PENDING) and held) or each.name.startswith(HEALTH_PREFIX):
            yield f"{each.name} brake: {each.message}"
    if (pending := asked.world.config.settings.brakes.pending) is not None:
        since = asked.now - pending.after_s - 1
        pods = asked.told.of("pods")
        waiting = Counter(
            pods[uid]["metadata"]["namespace"]
            for uid, at in asked.told.unschedulable.items()
            if at < since
        )
        if asked.request.namespace in stopped(
            waiting, pending.threshold(placed_pods(asked.told).total()), asked.told
        ):
            yield f"{waiting.total()} pods are Pending"


def whom(scope: str, told: Knowledge) -> set[str]:
    """Return the namespaces that a brake holds."""
    if scope == CLUSTER:
        return {each["metadata"]["namespace"] for each in told.of("pods").values()}
    return set(re.findall(r"namespace ([-a-z0-9]+)", scope))


def placed_pods(told: Knowledge) -> Counter[str]:
    """Return how many pods of each namespace are on a node that exists and have not ended."""
    nodes = {each["metadata"]["name"] for each in told.of("nodes").values()}
    return Counter(
        each["metadata"]["namespace"]
        for each in told.of("pods").values()
        if each["spec"].get("nodeName") in nodes
        and each.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    )


def stopped(counts: Mapping[str, int], threshold: int, told: Knowledge) -> set[str]:
    """Return the namespaces of which nothing may be evicted, with so many pods of each counted.

    Half of the namespaces, or five, share the threshold, unless one has nearly all pods.
    """
    placed = placed_pods(told)
    shares = min(max(2, (len(placed) + 1) // 2), 5, threshold)
    most = threshold // shares
    fair = sum(
        count if 10 * placed[namespace] >= 9 * placed.total() else min(count, most)
        for namespace, count in counts.items()
    )
    if fair >= most * shares and sum(counts.values()) >= threshold:
        return {*placed, *counts}
    return {namespace for namespace, count in counts.items() if count >= threshold}


def zones(asked: Asked) -> Iterator[str]:
    """Zones of which many nodes are not Ready."""
    if (settings := asked.world.config.settings.brakes.zones) is None:
        return
    zone = asked.told.zone_of(asked.place.node)
    states = asked.told.ready_by_zone()
    unready, nodes = states[zone].count(False), len(states[zone])
    if TOO_MANY_UNREADY <= unready < nodes and unready * 100 >= settings.unhealthy_percent * nodes:
        yield f"zone {zone} is disrupted"
    if not any(any(ready) for ready in states.values()):
        yield "no node is Ready"


def schedules(asked: Asked) -> Iterator[str]:
    """No request in a window that allows none, and not one more than it allows."""
    settings = asked.world.config.settings.budgets.schedules
    opened_s = asked.world.wall_now() % (CLOSED_EVERY_MINUTES * 60)
    if not settings or not OLD_S < opened_s < CLOSED_MINUTES * 60:
        return
    if asked.clock_was_set(opened_s):
        return
    since = asked.now - opened_s + OLD_S
    before = [e for e in asked.referee.evictions if since < e.sent_at]
    if len(before) >= int(settings[0].evictions or 0):
        yield f"the schedule allows {settings[0].evictions}, and there were {len(before)}"


def opt_outs(asked: Asked) -> Iterator[str]:
    """The pod has not opted out, nor had what is above it when the decision was made."""
    if asked.clock_was_set(OLD_S):
        return
    place = asked.place
    yield from kept_by(asked.told, place, asked.now, asked.world.wall_now())


def kept_by(
    told: Knowledge, place: "Eviction", now: float, wall_now: float, grace_s: float = 0.0
) -> Iterator[str]:
    """Yield the opt-outs of a pod, which have lasted for the time of grace, and of what is above.

    Those above it have lasted for OLD_S.
    """
    above = [
        uid
        for uid, each in told.of("namespaces").items()
        if each["metadata"]["name"] == place.namespace
    ]
    above.append(place.owner)
    if (node := told.node(place.node)) is not None:
        above.append(node["metadata"]["uid"])
    for uid, lasted_s in ((place.uid, grace_s), *((uid, OLD_S) for uid in above)):
        since = told.opted_out.get(uid, inf)
        if since > now - lasted_s:
            continue
        kinds = ("pods", "namespaces", "deployments", "statefulsets", "nodes")
        obj = next(found for kind in kinds if (found := told.of(kind).get(uid)) is not None)
        if wall_now < opted_out_until(obj) - SLACK:
            yield f"{obj['metadata']['name']} opted out"


def reasons(asked: Asked) -> Iterator[str]:
    """A node has a taint that counts now; that of a cordon does not."""
    if asked.place.plugin != TAINTS_PLUGIN:
        return
    if asked.told.unfit_until.get(asked.place.node, -inf) < asked.now:
        yield f"node {asked.place.node} has no taint to leave it for"


def standing_times(asked: Asked) -> Iterator[str]:
    """A taint that the node has now has stood for its time, in the eyes of this process."""
    if asked.place.plugin != TAINTS_PLUGIN or not asked.is_on(GuardName.STANDING_TIME):
        return
    node, told = asked.place.node, asked.told
    wanted_s = asked.world.config.settings.guards.standing_times.other_taints_s
    stood = [asked.now - since for since in told.taints_since.get(node, {}).values()]
    if stood and max(stood) < wanted_s - SLACK:
        yield f"no taint of node {node} has stood for {wanted_s:g} s"


def ages(asked: Asked) -> Iterator[str]:
    """The pod is old enough, and was Ready for long enough."""
    guards = asked.world.config.settings.guards
    if asked.clock_was_set(OLD_S):
        return
    age_s = asked.world.wall_now() - parse_time(asked.pod["metadata"]["creationTimestamp"])
    if age_s < guards.min_pod_age_s - SLACK:
        yield f"the pod is {age_s:.1f} s old"


def stateful_sets(asked: Asked) -> Iterator[str]:
    """All pods of a StatefulSet are Ready when one that is leaves."""
    uid, told = controller_uid(asked.pod), asked.told
    if not asked.is_on(GuardName.UNREADY_WORKLOADS) or uid not in told.of("statefulsets"):
        return
    now = asked.now
    if told.lacking.get(uid, inf) < now and told.ready_since.get(asked.request.uid, inf) < now:
        yield "its StatefulSet lacks Ready pods"


def drained_nodes(asked: Asked) -> Iterator[str]:
    """No pod leaves a node that an autoscaler empties."""
    if asked.told.drained_since.get(asked.place.node, inf) < asked.now:
        yield f"an autoscaler empties node {asked.place.node}"


def gangs(asked: Asked) -> Iterator[str]:
    """No other pod of the pod's gang runs, as a process knows it."""
    if not asked.is_on(GuardName.GANGS):
        return
    for uid, other in asked.told.gang_of(asked.pod).items():
        if uid != asked.request.uid and asked.told.bound_at[uid] < asked.now:
            yield f"{other['metadata']['name']} of its gang runs"


def single_replicas(asked: Asked) -> Iterator[str]:
    """Of the workloads of a namespace that want one pod, one is moving at a time."""
    referee, place = asked.referee, asked.place
    if not asked.is_on(GuardName.SINGLE_REPLICAS) or not referee.wants_only_one(place.owner):
        return
    for other in referee.evictions:
        if (
            other.life == place.life
            and other.namespace == place.namespace
            and other.owner not in (place.owner, "")
            and not other.is_surplus
            and asked.now - other.sent_at < SINGLE_TIMEOUT_S - OLD_S
            and referee.wants_only_one(other.owner)
            and not referee.is_ready_again(other)
        ):
            yield f"{other.name}, a single replica as well, is not replaced yet"


def cooldowns(asked: Asked) -> Iterator[str]:
    """A pod stays on a node that a sibling was evicted from before it was created.

    Unless the node is another one since; and after the clock was set it is not known.
    """
    place = asked.place
    cooldown_s = asked.world.config.settings.moves.cooldown_s
    if not place.owner or asked.clock_was_set():
        return
    changed_at = asked.told.changed_at.get(place.node, -inf)
    created = parse_time(asked.pod["metadata"]["creationTimestamp"]) - asked.world.start_s
    for left in asked.referee.evictions:
        if (
            (left.owner, left.template, left.node) == (place.owner, place.template, place.node)
            and created > left.at + 1
            and changed_at < left.at
            and left.life == place.life
            and OLD_S < asked.now - left.at < cooldown_s - SLACK
            and not asked.referee.is_open(left.uid)
        ):
            yield f"{left.name} left {left.node} {asked.now - left.at:.1f} s ago: it cools down"


def node_cooldowns(asked: Asked) -> Iterator[str]:
    """A plugin takes no pod from a node to which it moved one a short time ago.

    It moved a pod there if its owner lost one pod in this process, and made one since.
    """
    place, told = asked.place, asked.told
    cooldown_s = asked.world.config.settings.moves.node_cooldown_s
    if place.plugin not in CHOOSES_TARGETS or asked.clock_was_set():
        return
    changed_at = told.changed_at.get(place.node, -inf)
    since = asked.now - cooldown_s - asked.world.config.settings.moves.ready_timeout_s
    recent = [e for e in asked.referee.evictions if e.at > since]
    for left in recent:
        if left.plugin != place.plugin or left.life != place.life or left.is_surplus:
            continue
        if [each.owner for each in recent].count(left.owner) != 1 or asked.referee.is_open(
            left.uid
        ):
            continue
        came = asked.referee.created_since(left)
        if len(came) != 1 or (pod := told.of("pods").get(came[0])) is None:
            continue
        bound_at = told.bound_at.get(came[0], inf)
        if (
            pod["spec"].get("nodeName") == place.node
            and changed_at < bound_at
            and left.at < bound_at
            and OLD_S < asked.now - bound_at < cooldown_s - SLACK
        ):
            yield f"{pod['metadata']['name']} came {asked.now - bound_at:.1f} s ago: it cools down"


def warm_up(asked: Asked) -> Iterator[str]:
    """A process begins with a share of the rates."""
    budgets = asked.world.config.settings.budgets
    if (settings := budgets.warm_up) is None:
        return
    age_s = asked.now - asked.life.began_at
    ratio = settings.ratio(age_s)
    mine = [e for e in asked.referee.sent.values() if e.life == asked.place.life]
    for scope, rate in budgets.by_scope().items():
        if rate is None or not (name := asked.place.in_scope(scope)):
            continue
        evicted = [e for e in mine if e.in_scope(scope) == name and e.uid in asked.referee.left]
        most = max(1, int(rate.burst * ratio + SLACK)) + rate.per_second * ratio * age_s
        if len(evicted) + 1 > most + 1:
            yield f"{len(evicted)} evictions of {scope} {name} {age_s:.0f} s after the start"


RULES: Final[tuple[Callable[[Asked], Iterator[str]], ...]] = (
    pauses,
    brakes,
    zones,
    schedules,
    opt_outs,
    reasons,
    standing_times,
    ages,
    stateful_sets,
    drained_nodes,
    gangs,
    single_replicas,
    cooldowns,
    node_cooldowns,
    warm_up,
)


def wrong_decisions(world: "World", evaluation: Evaluation) -> Iterator[str]:
    """Workloads by what the process knows when it decides to evict: nothing else is under way."""
    life, pod = world.life, evaluation.finding.pod
    if life is None or not isinstance(evaluation.decision, Evict):
        return
    told = life.told
    if (obj := told.of("pods").get(pod.uid)) is None:
        return
    guards, plugin = world.config.settings.guards, evaluation.finding.plugin
    ready_s = told.ready_for_s(pod.uid, world.wall_now())
    is_clock_steady = all(evaluation.decided_at - at > OLD_S for at, _ in world.clock_steps)
    if ready_s < guards.min_ready_time_s - SLACK and is_clock_steady:
        yield f"{pod.name} was chosen when it was Ready for {ready_s:.1f} s"
    if (deployment := told.deployment_of(obj)) is None:
        return
    is_lost = told.is_lost(pod.uid, world.wall_now(), guards.unready_timeout_s)  # it may leave
    if guards.holds(GuardName.ROLLOUTS, plugin) and is_rolling_out(deployment) and not is_lost:
        yield f"{pod.name} was chosen while its Deployment is rolling out"
    if guards.holds(GuardName.UNREADY_WORKLOADS, plugin) and ready_s < inf:
        controller = controller_uid(obj)
        lacking = int(deployment["spec"]["replicas"]) - told.ready_pods(controller)
        lacking -= told.lost_pods(controller, world.wall_now(), guards.unready_timeout_s)
        moving = world.referee.may_be_moving(deployment["metadata"]["uid"])
        if lacking > moving:
            yield f"{pod.name} was chosen: {lacking} pods are not Ready, and {moving} may be moving"


class StatefulSetOrder:
    """Follows the decisions on the pods of StatefulSets: the highest ordinal leaves first.

    Of the pods of a set on which nothing was decided for a while, all that are found within
    GATHER_S count.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._life = 0
        self._seen: dict[str, list[tuple[float, str]]] = {}
        self._hasty: dict[str, tuple[float, str, int]] = {}

    def decided(self, evaluation: Evaluation) -> Iterator[str]:
        """Take in a decision."""
        life, pod, now = self._world.life, evaluation.finding.pod, evaluation.decided_at
        if life is None:
            return
        if life.number != self._life:
            self._life = life.number
            self._seen.clear()
            self._hasty.clear()
        guards, told = self._world.config.settings.guards, life.told
        obj = told.of("pods").get(pod.uid)
        if obj is None:
            return
        controller = controller_uid(obj)
        is_on = guards.holds(GuardName.STATEFUL_SET_ORDER, evaluation.finding.plugin)
        if not is_on or controller not in told.of("statefulsets"):
            return
        seen = self._seen.setdefault(controller, [])
        if pod.uid not in {uid for _, uid in seen}:
            is_chosen = isinstance(evaluation.decision, Evict)
            yield from self._found_first(controller, obj, now, is_chosen=is_chosen)
        seen.append((now, pod.uid))

    def _found_first(
        self, controller: str, pod: Obj, now: float, *, is_chosen: bool
    ) -> Iterator[str]:
        """Take in the first decision on a pod; `_hasty` are pods chosen while others are found."""
        assert self._world.life is not None, "it decided"
        told, seen, name = self._world.life.told, self._seen[controller], pod["metadata"]["name"]
        if (hasty := self._hasty.get(controller)) is not None:
            at, chosen, lower = hasty
            if lower < ordinal_of(pod) and now < at + GATHER_S - SLACK:
                yield f"{chosen} was chosen before {name}, which was found as well"
        began = min((at for at, _ in seen if at > now - TURN_S - OLD_S), default=now)
        if not is_chosen or now >= began + GATHER_S - SLACK:
            return
        for uid in {uid for at, uid in seen if at >= began}:
            other = told.of("pods").get(uid)
            if other is not None and ordinal_of(other) > ordinal_of(pod):
                higher = other["metadata"]["name"]
                yield f"{name} was chosen before {higher}, which was found as well"
        self._hasty[controller] = began, name, ordinal_of(pod)


def ordinal_of(pod: Obj) -> int:
    """Return the ordinal of a StatefulSet's pod."""
    return int(pod["metadata"]["name"].rpartition("-")[2])


class Storms:
    """Counts the pods that a process decides to evict when it finds them first."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._found: dict[str, tuple[str, float]] = {}
        self._life = 0

    def decided(self, evaluation: Evaluation) -> Iterator[str]:
        """Take in a decision; so many within the window are a storm, and the brake engages."""
        settings, life = self._world.config.settings.brakes.storm, self._world.life
        if settings is None or life is None:
            return
        is_storm = bool(life.controller.pauses.brake_messages()[STORM])
        if is_storm or life.number != self._life:
            self._life = life.number
            self._found.clear()
        now = evaluation.decided_at
        is_counted = evaluation.is_new and not isinstance(evaluation.trigger.change, Resynced)
        if is_storm or not is_counted or not isinstance(evaluation.decision, Evict):
            return
        after = now - settings.window_s
        self._found = {uid: found for uid, found in self._found.items() if found[1] > after}
        pod = evaluation.finding.pod
        self._found.setdefault(pod.uid, (pod.namespace, now))
        counts = Counter(namespace for namespace, _ in self._found.values())
        if stopped(counts, settings.threshold(placed_pods(life.told).total()), life.told):
            yield f"{len(self._found)} pods were found, and it is no storm"


def futile_moves(world: "World") -> Iterator[str]:
    """While no node changes and all have a taint, an owner is moved in vain a few times only.

    So often as settings say, and as many more as may be moving at once.
    """
    moves, (profile,) = world.config.settings.moves, world.config.policy.profiles
    if not profile.args[TAINTS_PLUGIN].model_dump()["include_prefer_no_schedule"]:
        return
    if (limit := moves.max_moving.owner) is None or not moves.futile_backoff_s:
        return
    counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for eviction in world.referee.evictions:
        if eviction.unfit_since is not None and eviction.plugin == TAINTS_PLUGIN and eviction.owner:
            key = eviction.owner, eviction.template, eviction.unfit_since
            counts[key] += 1
            allowed = moves.futile_after + count_of(limit, 20) - 1
            if counts[key] > allowed:
                yield f"{counts[key]} futile moves of the owner of {eviction.name}"
