"""Stories in which pods move as sets: what they have beside the others, and what must hold there.

A node is emptied by ConsolidateNodes or KeepNodesFree, or room is made for pods that wait.
"""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Final

import anyio

from reactive_desched.controller.consolidation import PLANNED_FOR_S, STUCK_AFTER_S
from reactive_desched.controller.outdated_decisions import DECISION_TTL_S
from reactive_desched.model.consolidation import EMPTY, EMPTYING, PLANNED
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.resources import CPU, parse_amount
from reactive_desched.policy.configuration import Configuration
from reactive_desched.sim.amounts import sum_of
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Event
from tests.safety.knowledge import Knowledge
from tests.safety.restraint import OLD_S, kept_by

if TYPE_CHECKING:
    from tests.safety.world import World

SETS_IN, SETS_AT = 11, 5
"""One of so many stories has sets; none of those that are named for a rule."""

EMPTYING_PLUGINS: Final = ("ConsolidateNodes", "KeepNodesFree")
ROOM_PLUGIN: Final = "MakeRoomForPending"

CHOICES: Final = (
    ("ConsolidateNodes", ROOM_PLUGIN),
    ("KeepNodesFree", ROOM_PLUGIN),
    (ROOM_PLUGIN,),
)
ARGS: Final = """\
  - name: ConsolidateNodes
    args: {minSaving: 0, headroom: {cpu: 10}}
  - name: KeepNodesFree
    args: {nodes: 1}
  - name: MakeRoomForPending
    args: {wait: 5s}
"""
MEMORY: Final = "cooldown: 300s\n  nodeCooldown: 60s\n  futileBackoff: 300s\n"

MARKED_S: Final = 15.0
"""A set goes on by memory for so long at least after its node or its pod lost the mark."""

CALM_S: Final = 1900.0
"""So long after the last trouble all sets have ended, but for those that limits make slow."""

MOST_OF_EACH: Final = 2
"""So often at most a pod, or what replaces it, moves as one of a set in that time, on average."""


def with_sets(text: str, drawn: int) -> str:
    """Return a policy in which pods move as sets, and moves are remembered."""
    names = CHOICES[drawn // SETS_IN % len(CHOICES)]
    text = text.replace("  plugins:\n", f"{ARGS}  plugins:\n")
    head, _, rest = text.partition("    balance: {enabled: [")
    text = f"{head}    balance: {{enabled: [{', '.join(names)}]{rest.partition(']')[2]}"
    head, _, rest = text.partition("  cooldown: ")
    after = rest.partition("  futileBackoff: ")[2].partition("\n")[2]
    return f"{head}  {MEMORY}{after}"


def has_sets(config: Configuration) -> bool:
    """Say whether a policy has a plugin whose pods move as sets."""
    return any(ROOM_PLUGIN in profile.balance for profile in config.policy.profiles)


def value_of(node: Obj) -> str:
    """Return the value of the taint of a set; empty where the node has none."""
    taints: list[Obj] = node["spec"].get("taints") or []
    return next((each.get("value", "") for each in taints if each["key"] == CONSOLIDATING), "")


class Sets:
    """Sees the marks of sets: the taint of a node, and the nomination of a pod that waits."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._emptying: dict[str, float] = {}
        self._nominated: dict[str, float] = {}
        self._went_on: dict[str, float] = {}

    def observe(self, event: Event) -> None:
        """Remember when a node was last being emptied, or a pod nominated for it."""
        if event.type == "DELETED":
            return
        now = anyio.current_time()
        for obj in filter(None, (event.previous, event.object)):
            name = obj["metadata"]["name"]
            if event.resource == "nodes" and value_of(obj) == EMPTYING:
                if now > self._emptying.get(name, -inf) and obj is event.object:
                    self._went_on.setdefault(name, now)
                self._emptying[name] = now
            elif event.resource == "nodes" and obj is event.object:
                self._went_on.pop(name, None)
            if event.resource == "pods" and (node := _nominated(obj)):
                self._nominated[node] = now

    def at_request(self, plugin: str, node: str) -> Iterator[str]:
        """Yield what is wrong with a request for a pod of a set: its mark comes first."""
        now = anyio.current_time()
        if plugin in EMPTYING_PLUGINS:
            found = self._world.store.get("nodes", "", node)
            is_marked = found is not None and value_of(found) == EMPTYING
            if not is_marked and now - self._emptying.get(node, -inf) > DECISION_TTL_S:
                yield f"node {node} has no taint as one that is emptied"
        if plugin == ROOM_PLUGIN:
            pods = self._world.store.list("pods")
            is_marked = any(_nominated(pod) == node for pod in pods)
            if not is_marked and now - self._nominated.get(node, -inf) > MARKED_S:
                yield f"no pod is nominated for {node}"

    def decided(self, evaluation: Evaluation) -> Iterator[str]:
        """Yield what is wrong with letting a pod of a set go: the others have to leave, too.

        Else it moves in vain. Each of them has a place of its own, as the process knows them, and
        all have enough room together; so a set that is given up after any pod leaves none Pending.
        """
        life, moved = self._world.life, evaluation.finding.move_set
        if life is None or moved is None or not isinstance(evaluation.decision, Evict):
            return
        told, name = life.told, evaluation.finding.pod.name
        for room in moved.rooms:
            waiting = told.of("pods").get(room.pod)
            if waiting is None or "deletionTimestamp" in waiting["metadata"]:
                yield f"{name} makes room for a pod that is gone"
        sent = self._world.referee.sent
        pods = [told.of("pods").get(uid) for uid in moved.pods if uid not in sent]
        left = [pod for pod in pods if pod is not None and stays(pod)]
        places = Places(told, set(moved.pods))
        for pod in left:
            other = f"{name} was let go, and {pod['metadata']['name']} of its set"
            place = self._world.referee.place_of(pod, evaluation.finding.plugin, life.number)
            if not any(evaluation.decided_at - at < OLD_S for at, _ in self._world.clock_steps):
                wall_now = self._world.wall_now()
                for kept in kept_by(told, place, evaluation.decided_at, wall_now, OLD_S):
                    yield f"{other} stays: {kept}"
            if not places.fits(pod):
                yield f"{other} fits on no other node"
        if sum(map(cpu_of, left)) > places.free_cpu({at(pod) for pod in left}):
            yield f"{name} was let go, and not all pods of its set have places"

    def in_calm(self) -> Iterator[str]:
        """Yield what sets have left behind after a long calm, and pods that they still move."""
        now, pods = anyio.current_time(), self._world.store.list("pods")
        evictions = self._world.referee.evictions
        used = {pod["spec"].get("nodeName") for pod in pods}
        nodes = self._world.store.list("nodes")
        emptied = max(self._emptying.values(), default=-inf)
        if EMPTYING in map(value_of, nodes):
            emptied = now
        for node in nodes:
            name, value = node["metadata"]["name"], value_of(node)
            if value == EMPTY and name in used:
                yield f"node {name} has the taint of an empty node, and is used"
            last = max((e.at for e in evictions if e.node == name), default=-inf)
            stands_s = now - max(last, self._went_on.get(name, now))
            if value == PLANNED and now - emptied > PLANNED_FOR_S + MARKED_S:
                yield f"node {name} has the taint of one that is emptied next, and none is"
            if value == EMPTYING and (name not in used or stands_s > STUCK_AFTER_S + MARKED_S):
                yield f"node {name} has the taint of one that is emptied"
        for pod in pods:
            if not pod["spec"].get("nodeName") and (at := _nominated(pod)):
                yield f"{pod['metadata']['name']} is nominated for {at}, and nothing moves"
        plugins = (*EMPTYING_PLUGINS, ROOM_PLUGIN)
        moved = [e.name for e in evictions if e.plugin in plugins and e.at > now - CALM_S]
        if len(moved) > MOST_OF_EACH * len(pods):
            yield f"{len(moved)} moves of {len(pods)} pods in a time of calm"


class Places:
    """The room on nodes, as a process knows them, without the pods of a set.

    It is the most that there may be: whatever else the scheduler asks for is left out.
    """

    def __init__(self, told: Knowledge, of_set: set[str]) -> None:
        self._free: dict[str, int] = {}
        self._taints: dict[str, set[str]] = {}
        for node in told.of("nodes").values():
            spec, name = node["spec"], node["metadata"]["name"]
            taints = spec.get("taints") or []
            if not spec.get("unschedulable"):
                self._free[name] = parse_amount(CPU, str(node["status"]["allocatable"][CPU]))
                hard = (each for each in taints if each["effect"] != "PreferNoSchedule")
                self._taints[name] = {each["key"] for each in hard}
        for uid, pod in told.of("pods").items():
            if uid not in of_set and stays(pod) and at(pod) in self._free:
                self._free[at(pod)] -= cpu_of(pod)

    def fits(self, pod: Obj) -> bool:
        """Say whether a pod may have a place on another node than its own."""
        tolerated = {each.get("key") for each in pod["spec"].get("tolerations") or []}
        return any(
            name != at(pod) and free >= cpu_of(pod) and self._taints[name] <= tolerated
            for name, free in self._free.items()
        )

    def free_cpu(self, without: set[str]) -> int:
        """Return the free cpu of all nodes but these."""
        return sum(free for name, free in self._free.items() if name not in without and free > 0)


def at(pod: Obj) -> str:
    """Return the node of a pod; empty where it has none."""
    return str(pod["spec"].get("nodeName") or "")


def stays(pod: Obj) -> bool:
    """Say whether a pod takes room on its node, and is not about to leave it."""
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool(at(pod)) and not has_ended and "deletionTimestamp" not in pod["metadata"]


def cpu_of(pod: Obj) -> int:
    """Return the thousandths of a cpu that a pod requests."""
    return sum_of(pod["spec"]).get(CPU, 0)


def _nominated(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")
