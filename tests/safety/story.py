"""A story by a seed: a policy with settings, a cluster, and what happens to both."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

import anyio
from trio.testing import MockClock

from reactive_desched.model.opt_outs import DO_NOT_DISRUPT, DO_NOT_EVICT, SAFE_TO_EVICT
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.sim.controllers.node_lifecycle import GRACE_S
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError
from tests.safety.knowledge import DRAIN, GANG, OPT_OUT, ZONE
from tests.safety.referee import FOLLOWED_S
from tests.safety.restraint import CLOSED_EVERY_MINUTES, CLOSED_MINUTES
from tests.safety.sets import CALM_S, SETS_AT, SETS_IN, has_sets, with_sets
from tests.safety.world import World, remove_quietly
from tests.support.previewed import draw_limits
from tests.support.sim_world import node, workload
from tests.support.trio_order import task_order

ZONES: Final = ("a", "b", "c")
APPS: Final = {"web": "default", "api": "default", "batch": "jobs"}
"""Workloads by their namespaces."""

TAINTS: Final = ("gpu:NoSchedule", "spot:NoSchedule", "slow:PreferNoSchedule")
POD_OPT_OUTS: Final = (
    (OPT_OUT, "true"),
    (SAFE_TO_EVICT, "false"),
    (DO_NOT_DISRUPT, "true"),
)
ABOVE_PODS: Final = ("deployments", "statefulsets", "namespaces", "nodes")
WATCHED: Final = ("pods", "nodes", "namespaces", "poddisruptionbudgets")


def policy_text(rng: Random) -> str:
    """Write a policy and settings.

    In some stories one layer that holds pods stands alone, or none does: nothing hides then what
    it lets through.
    """
    layers = set(LAYERS)
    if rng.random() < 0.4:
        layers = {rng.choice([*LAYERS, "guards", "moves", ""])}
    others = ("RemoveDuplicates", "RemovePodsViolatingNodeAffinity")
    plugins = ["RemovePodsViolatingNodeTaints", *(each for each in others if rng.random() < 0.3)]
    deschedule = [name for name in plugins if name != "RemoveDuplicates"]
    memory = _memory(rng) if "memory" in layers else NO_MEMORY
    may_loop = layers == set(LAYERS) or not memory.startswith("cooldown: 0s")
    # The scheduler may put a duplicate back at once, and then nothing would hold the next eviction.
    balance = [name for name in plugins if name == "RemoveDuplicates" and may_loop]
    text = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{draw_limits(rng) if "limits" in layers else ""}\
profiles:
- name: safety
  pluginConfig:
  - name: DefaultEvictor
    args: {{nodeFit: {rng.choice(["false", "true"])}, noEvictionPolicy: Mandatory}}
  - name: RemovePodsViolatingNodeTaints
    args: {{includePreferNoSchedule: {rng.choice(["true", "false"]) if may_loop else "false"}}}
  - name: RemovePodsViolatingNodeAffinity
    args: {{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}}
  plugins:
    deschedule: {{enabled: [{", ".join(deschedule)}]}}
    balance: {{enabled: [{", ".join(balance)}]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: {rng.choice(["0s", "500ms", "2s"])}, maxWait: 5s}}
evictions: {{maxInFlight: {rng.choice([50, 5, 1])}}}
guards: {_guards(rng, alone=layers == {"guards"}) if "guards" in layers else NO_GUARDS}
brakes: {rng.choice(["{}", "{}", "{}", BRAKES]) if "brakes" in layers else NO_BRAKES}
moves:
  maxMoving: {_max_moving(rng, alone=layers == {"moves"}) if "moves" in layers else NO_MAX_MOVING}
  readyTimeout: {rng.choice(["600s", "600s", "120s"])}
  {memory}
budgets:
{_budgets(rng) if "budgets" in layers else NO_BUDGETS}\
"""
    drawn = crc32(text.encode())  # draws nothing from `rng`: other stories stay as they were
    guards = f"\nguards: {{standingTimes: {STANDING[drawn % len(STANDING)]}, "
    text = text.replace("\nguards: {", guards)
    if "brakes" in layers and drawn % OWN_MOVES_IN == 0:
        text = text.replace("\nbrakes: {", f"\nbrakes: {{health: {OWN_MOVES}, ")
    text = text.replace(", }", "}")
    return with_sets(text, drawn) if drawn % SETS_IN == SETS_AT else text


def _guards(rng: Random, *, alone: bool) -> str:
    """Have all guards of workloads, none, or one; `alone` always one."""
    single = [_only_guard(name) for name in (*OF_WORKLOADS, *AGES)]
    return rng.choice(single if alone else ["{}", NO_GUARDS, *single])


def _only_guard(name: str) -> str:
    disabled = ", ".join(other for other in OF_WORKLOADS if other != name)
    ages = ", ".join(f"{age}: {'60s' if age == name else '0s'}" for age in AGES)
    return f"{{disabled: [{disabled}], {ages}}}"


def _max_moving(rng: Random, *, alone: bool) -> str:
    """Limit some scopes, by default or as drawn, or one; `alone` always one."""
    if alone or rng.random() < 0.3:
        scope = rng.choice(list(MAX_MOVING))
        limits = {**dict.fromkeys(MAX_MOVING, "null"), scope: MAX_MOVING[scope][0]}
    else:
        drawn = {scope: rng.choice(choices) for scope, choices in MAX_MOVING.items()}
        limits = {scope: limit for scope, limit in drawn.items() if rng.random() < 0.5}
    return f"{{{', '.join(f'{scope}: {limit}' for scope, limit in limits.items())}}}"


def _memory(rng: Random) -> str:
    cooldown, backoff = rng.choice(["300s", "30s", "0s"]), rng.choice(["300s", "30s", "0s"])
    of_nodes = rng.choice(["60s", "0s"])
    return f"cooldown: {cooldown}\n  nodeCooldown: {of_nodes}\n  futileBackoff: {backoff}"


def _budgets(rng: Random) -> str:
    """Give some scopes a rate, by default or as drawn, or one that stands alone."""
    if rng.random() < 0.3:
        alone = rng.choice([scope for scope in BUDGETS if scope != "warmUp"])
        return NO_BUDGETS.replace(f"{alone}: null", f"{alone}: {BUDGETS[alone][-1]}")
    budgets = "".join(
        f"  {scope}: {rng.choice(choices)}\n"
        for scope, choices in BUDGETS.items()
        if rng.random() < 0.6
    )
    return budgets + (rng.choice(SCHEDULES) if rng.random() < 0.2 else "  schedules: []\n")


LAYERS: Final = ("limits", "budgets", "moves", "brakes", "memory", "guards")
BUDGETS: Final = {
    "cluster": (
        "null",
        "{evictions: 6, per: 1m, burst: 2}",
        "{evictions: 30, per: 1m, burst: 10}",
        "{evictions: 2, per: 5m, burst: 1}",
    ),
    "zone": ("null", "{evictions: 2, per: 2m, burst: 1}"),
    "node": ("null", "{evictions: 2, per: 1m, burst: 1}"),
    "plugin": ("null", "{evictions: 2, per: 2m, burst: 1}"),
    "namespace": ("null", "{evictions: 4, per: 1m, burst: 2}"),
    "owner": ("null", "null", "{evictions: 1, per: 3m, burst: 1}"),
    "warmUp": ("null",),
}
NO_BUDGETS: Final = "".join(f"  {scope}: null\n" for scope in BUDGETS)
OF_WORKLOADS: Final = ("UnreadyWorkloads", "Rollouts", "StatefulSetOrder", "SingleReplicas")
AGES: Final = ("minPodAge", "minReadyTime")
STANDING: Final = (
    *["{otherTaints: 0s, nodeLabels: 0s}"] * 5,
    "{otherTaints: 3s, nodeLabels: 3s}",
)
NO_GUARDS: Final = f"{{disabled: [{', '.join(OF_WORKLOADS)}], minPodAge: 0s, minReadyTime: 0s}}"
MAX_MOVING: Final = {
    "owner": (1, 2, "20%", "50%", "null"),
    "namespace": (1, 2, 4),
    "node": (1, 2),
    "zone": (1, 2, 3),
    "cluster": (1, 2, 5),
}
NO_MAX_MOVING: Final = f"{{{', '.join(f'{scope}: null' for scope in MAX_MOVING)}}}"
NO_MEMORY: Final = "cooldown: 0s\n  nodeCooldown: 0s\n  futileBackoff: 0s"
NO_BRAKES: Final = "{zones: null, storm: null, pending: null}"
BRAKES: Final = (
    "{storm: {pods: 8, percent: 5, releaseAfter: 5m}, pending: {pods: 3, percent: 1, after: 30s}}"
)
GANGS_IN, GANGS_AT = 24, 7
"""One of so many workloads is a gang; none is in a story that is named for another rule."""
OWN_MOVES_IN: Final = 3
"""One of so many stories with brakes has a health check by the controller's own moves."""
OWN_MOVES: Final = (
    "[{name: own, moves: {last: 5, notReadyPercent: 40, readyWithin: 30s, slowdown: 2}, "
    "releaseAfter: 3m}]"
)
SCHEDULES: Final = tuple(
    f"  schedules: [{{schedule: '*/{CLOSED_EVERY_MINUTES} * * * *', "
    f"duration: {CLOSED_MINUTES}m, evictions: {evictions}}}]\n"
    for evictions in (0, 2)
)


@cache
def _registry() -> Any:
    return plugin_registry()


class Story:
    """What happens in one world, step by step; `log` has each step as it was played.

    `rng` draws what the steps are about.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.log: list[str] = []

    def prepare(self) -> None:
        """Make the cluster: three zones, three workloads, one with a disruption budget."""
        world, rng = self.world, self.rng
        for zone in ZONES:
            for number in range(rng.choice([1, 2, 2, 3, 5])):
                self._make_node(f"{zone}{number}", zone)
        world.store.create("namespaces", {"metadata": {"name": "jobs"}})
        guards = world.config.settings.guards
        is_of_singles = set(guards.disabled) == set(OF_WORKLOADS) - {"SingleReplicas"}
        sizes = [1] if is_of_singles or rng.random() < 0.2 else [1, 4, 8, 16]
        for app, namespace in APPS.items():
            replicas = rng.choice(sizes)
            resource = "statefulsets" if rng.random() < 0.4 else "deployments"
            spec = workload(app, replicas, cpu="100m")
            drawn = crc32(f"{self._nodes()} {app} {replicas}".encode())  # nothing from `rng`
            if replicas > 1 and drawn % GANGS_IN == GANGS_AT:
                spec["template"]["metadata"]["labels"][GANG] = app
            spec |= {"serviceName": app} if resource == "statefulsets" else {}
            metadata = {"name": app, "namespace": namespace}
            world.store.create(resource, {"metadata": metadata, "spec": spec})
        if rng.random() < 0.5:
            self.budget()

    async def play(self, action: str) -> None:
        """Play one step, a method of this class, and see that everything still holds."""
        self._note(action)
        done = getattr(self, action)()
        if inspect.isawaitable(done):
            await done
        await anyio.sleep(self.rng.choice([0, 0.01, 0.3, 2]))
        self.world.referee.check()

    async def end(self) -> None:
        """End every trouble, and let the cluster come to rest."""
        self._note("calm")
        await self._end_troubles()
        await anyio.sleep(600)
        if has_sets(self.world.config):
            await anyio.sleep(CALM_S)
            self.world.referee.check_calm()

    async def _end_troubles(self) -> None:
        world = self.world
        world.is_down = world.disk_is_full = False
        world.replies.clear()
        world.disk_delay_s = 0.001
        world.write_pause_file("")
        if world.life is None:
            world.begin_life()
        life = world.life
        assert life is not None, "one began"
        world.resume()
        life.list_all_again()
        await anyio.sleep(200)  # requests under way arrive
        timeout_s = world.config.settings.moves.ready_timeout_s
        world.referee.followed_before = anyio.current_time() + 600 - timeout_s - FOLLOWED_S

    # --- the cluster ---

    def taint(self) -> None:
        if self.rng.random() < 0.3:
            self.untaint()
        self._taint_node(self._node(), self.rng.choice(TAINTS))

    def taint_some(self) -> None:
        """Taint several nodes, so that pods of many workloads are found at once."""
        for _ in range(self.rng.choice([2, 4])):
            self.taint()

    def untaint(self) -> None:
        for name in self._nodes():
            self._edit_node(
                name,
                lambda spec: {
                    **spec,
                    "taints": [t for t in spec.get("taints") or [] if "/" in t["key"]],
                },
            )

    def cordon(self) -> None:
        self._edit_node(self._node(), lambda spec: {**spec, "unschedulable": True})

    def uncordon(self) -> None:
        for name in self._nodes():
            self._edit_node(name, lambda spec: {**spec, "unschedulable": False})

    def scale(self) -> None:
        replicas = self.rng.choice([0, 1, 2, 6, 12])
        self._edit_workload(lambda spec: {**spec, "replicas": replicas})

    def roll_out(self) -> None:
        number = str(self.rng.randrange(1000))

        def change(spec: Obj) -> Obj:
            template = spec["template"]
            metadata = {**template["metadata"], "annotations": {"revision": number}}
            return {**spec, "template": {**template, "metadata": metadata}}

        self._edit_workload(change)

    def kill_pod(self) -> None:
        if pods := self.world.store.list("pods"):
            meta = self.rng.choice(pods)["metadata"]
            remove_quietly(self.world.store, "pods", meta["namespace"], meta["name"])

    def add_node(self) -> None:
        zone = self.rng.choice(ZONES)
        self._make_node(f"{zone}-new{self.rng.randrange(10_000)}", zone)

    def remove_node(self) -> None:
        if len(self._nodes()) > 3:
            remove_quietly(self.world.store, "nodes", "", self._node())

    def stop_node(self) -> None:
        self.world.cluster.stop_node(self._node())

    def stop_zone(self) -> None:
        zone = self.rng.choice(ZONES)
        for stored in self.world.store.list("nodes"):
            if (stored["metadata"].get("labels") or {}).get(ZONE) == zone:
                self.world.cluster.stop_node(stored["metadata"]["name"])

    def start_nodes(self) -> None:
        for name in self._nodes():
            self.world.cluster.start_node(name)

    def budget(self) -> None:
        app, namespace = self.rng.choice(list(APPS.items()))
        remove_quietly(self.world.store, "poddisruptionbudgets", namespace, app)
        spec = {
            "selector": {"matchLabels": {"app": app}},
            **self.rng.choice([{"minAvailable": 1}, {"maxUnavailable": 1}, {"maxUnavailable": 0}]),
        }
        metadata = {"name": app, "namespace": namespace}
        self.world.store.create("poddisruptionbudgets", {"metadata": metadata, "spec": spec})

    def want_room(self) -> None:
        """Create pods of which each takes nearly a whole node: one, or a gang of two."""
        gang = self.rng.random() < 0.4
        spec = workload("big", 2 if gang else 1, cpu="3750m")
        if gang:
            spec["template"]["metadata"]["labels"][GANG] = "big"
        with suppress(StatusError):
            metadata = {"name": "big", "namespace": "jobs"}
            self.world.store.create("deployments", {"metadata": metadata, "spec": spec})

    def want_no_room(self) -> None:
        remove_quietly(self.world.store, "deployments", "jobs", "big")

    # --- what brakes are for ---

    async def leave_no_room(self) -> None:
        """Let pods that were evicted or killed wait for a node, and then find others."""
        for name in self._nodes():
            self._edit_node(name, lambda spec: {**spec, "unschedulable": True})
        await self._find_pods_of(self._nodes())
        for _ in range(self.rng.choice([0, 4, 20])):
            self.kill_pod()
        await anyio.sleep(75)
        await self._find_pods_of(self._nodes())
        self.uncordon()

    async def disrupt_a_zone(self) -> None:
        """Stop three nodes of five in a zone, and then find the pods of the others."""
        zone = self.rng.choice(ZONES)
        for number in range(5):
            self._make_node(f"{zone}{number}", zone)
        nodes = [name for name in self._nodes() if name.startswith(zone)]
        for name in nodes[: len(nodes) * 3 // 5]:
            self.world.cluster.stop_node(name)
        await anyio.sleep(60)
        await self._find_pods_of(nodes)
        self.start_nodes()

    async def lose_all_nodes(self) -> None:
        for name in self._nodes():
            self.world.cluster.stop_node(name)
        await anyio.sleep(60)
        await self._find_pods_of(self._nodes())
        self.start_nodes()

    async def _find_pods_of(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            self._taint_node(name, f"{self.rng.choice('xyz')}:NoSchedule")
        await anyio.sleep(15)
        self.untaint()

    async def lose_all_nodes_while_writing(self) -> None:
        """Find pods when all nodes were silent for almost as long as that is tolerated."""
        for name in self._nodes():
            self.world.cluster.stop_node(name)
        await anyio.sleep(GRACE_S - 2)
        self.world.disk_delay_s = 3
        self.taint_some()
        await anyio.sleep(8)
        self.world.disk_delay_s = 0.001
        self.start_nodes()

    # --- what the follow-up of moves is for ---

    async def replace_siblings(self) -> None:
        """Kill pods while a proxy holds requests: what replaces those is no move's replacement."""
        self.world.replies[:0] = [("", self.rng.choice([20, 40])) for _ in range(4)]
        self.taint_some()
        await anyio.sleep(4)
        for _ in range(6):
            self.kill_pod()
        if self.rng.random() < 0.3:
            await self.crash()
        await anyio.sleep(self.rng.choice([10, 30]))
        await self._find_pods_of(self._nodes())

    async def change_size_of_found(self) -> None:
        """Scale, or roll out, a workload whose pods are found meanwhile."""
        for name in self._nodes():
            self._taint_node(name, "x:NoSchedule")
        for _ in range(3):
            self.rng.choice([self.scale, self.roll_out])()
            await anyio.sleep(self.rng.choice([1, 10]))
        self.untaint()

    async def taint_all_softly(self) -> None:
        """Let moves be in vain: a replacement lands where its plugin finds the same."""
        for name in self._nodes():
            self._taint_node(name, "slow:PreferNoSchedule")
        await anyio.sleep(self.rng.choice([60, 310, 900]))
        self.untaint()

    # --- people ---

    def protect(self) -> None:
        self._annotate("pods", dict([self.rng.choice(POD_OPT_OUTS)]))

    def protect_for_a_time(self) -> None:
        until_s = self.world.wall_now() + self.rng.choice([5, 60])
        until = datetime.fromtimestamp(until_s, UTC).isoformat()
        for resource in ("pods", self.rng.choice(ABOVE_PODS)):
            self._annotate(resource, {DO_NOT_EVICT: until})

    def unprotect(self) -> None:
        self._annotate("pods", {})

    def protect_above(self) -> None:
        resource = self.rng.choice(ABOVE_PODS)
        opt_outs = (DO_NOT_EVICT, DO_NOT_DISRUPT) if resource == "nodes" else (DO_NOT_EVICT,)
        self._annotate(resource, {self.rng.choice(opt_outs): "true"})

    async def protect_what_is_found(self) -> None:
        """Have all pods, or all nodes, opt out, and then find pods."""
        nodes = self.rng.random() < 0.3
        key, value = (DO_NOT_DISRUPT, "true") if nodes else self.rng.choice(POD_OPT_OUTS)
        resource = "nodes" if nodes else "pods"
        self._set_all_annotations(resource, {key: value})
        await anyio.sleep(6)
        await self._find_pods_of(self._nodes())
        self._set_all_annotations(resource, {})

    async def drain_by_autoscaler(self) -> None:
        """Have an autoscaler empty some nodes, and find pods there."""
        nodes = self._nodes()[:3]
        for name in nodes:
            self._taint_node(name, f"{DRAIN}:NoSchedule")
        await anyio.sleep(6)
        await self._find_pods_of(nodes)

    async def find_stateful_sets(self) -> None:
        """Find pods of StatefulSets after a time of rest."""
        await anyio.sleep(self.rng.choice([10, 60]))
        await self._find_pods_of(self._nodes())

    def unprotect_above(self) -> None:
        for resource in ABOVE_PODS:
            self._set_all_annotations(resource, {})

    def pause(self) -> None:
        self.world.pause()

    def resume(self) -> None:
        self.world.resume()

    def evaluate(self) -> None:
        """Have a person ask for a look at a node, or at everything."""
        self.world.evaluate(self.rng.choice([self._node(), ""]))

    async def pause_by_file(self) -> None:
        self.world.write_pause_file("true")
        await anyio.sleep(self.rng.choice([0.5, 20]))
        self.world.write_pause_file("")

    # --- time and troubles ---

    async def wait(self) -> None:
        await anyio.sleep(self.rng.choice([1, 10, 60]))

    async def long_wait(self) -> None:
        await anyio.sleep(self.rng.choice([90, 310, 900]))

    async def lose_watch(self) -> None:
        if (life := self.world.life) is None:
            return
        resource = self.rng.choice(WATCHED)
        life.lose(resource, noticed=True)
        await anyio.sleep(self.rng.choice([0.1, 3, 40]))
        if self.world.life is life:
            life.list_again(resource)

    async def silent_watch(self) -> None:
        if (life := self.world.life) is None:
            return
        resource = self.rng.choice(WATCHED)
        life.lose(resource, noticed=False)
        await anyio.sleep(self.rng.choice([1, 25]))
        if self.world.life is life:
            life.list_again(resource)

    async def stop_what_is_decided(self) -> None:
        """Protect all pods, or pause, while the disk still writes what was decided."""
        self.world.disk_delay_s = 3
        self.taint_some()
        await anyio.sleep(self.rng.choice([0.5, 2.5, 6]))
        if self.rng.random() < 0.5:
            self.pause()
        else:
            self._set_all_annotations("pods", {OPT_OUT: "true"})
        await anyio.sleep(4)
        self.world.disk_delay_s = 0.001
        self.resume()
        self._set_all_annotations("pods", {})

    async def find_evicted_pods(self) -> None:
        """Taint nodes twice while no watch says that pods left after the first time."""
        if (life := self.world.life) is None:
            return
        self.taint_some()
        life.lose("pods", noticed=False)
        await anyio.sleep(self.rng.choice([3, 8, 20]))
        await self._find_pods_of(self._nodes())
        if self.world.life is life:
            life.list_again("pods")

    def bad_replies(self) -> None:
        for _ in range(self.rng.randrange(1, 6)):
            fault = self.rng.choice(["overloaded", "broken", "lost before", "lost after", "", ""])
            delay_s = self.rng.choice([0.005, 0.005, 2, 30, 80])
            self.world.replies.append((fault, delay_s))

    async def outage(self) -> None:
        world = self.world
        world.is_down = True
        if life := world.life:
            for resource in WATCHED:
                life.lose(resource, noticed=True)
        await anyio.sleep(self.rng.choice([2, 30]))
        world.is_down = False
        if world.life is not None and world.life is life:
            for resource in WATCHED:
                life.list_again(resource)

    async def crash(self) -> None:
        await self.world.end_life(crash=True)
        await anyio.sleep(self.rng.choice([0, 1, 15, 120]))
        self.world.begin_life()

    async def crash_where_clocks_differ(self) -> None:
        """Crash after evictions, and go on with another time of day, perhaps elsewhere."""
        self.taint_some()
        await anyio.sleep(self.rng.choice([1, 4, 20]))
        if self.rng.random() < 0.5:
            self.step_clock()  # the process lives on for a moment
            await anyio.sleep(self.rng.choice([0, 2]))
        await self.world.end_life(crash=True)
        if self.rng.random() < 0.5:
            self.world.move_to_another_machine(self.rng.choice([-600, -30, 0, 30, 7200]))
        else:
            self.step_clock()
        await anyio.sleep(self.rng.choice([0, 1, 15]))
        self.world.begin_life()

    async def crash_with_requests_held(self) -> None:
        """Crash while a proxy holds requests: they arrive in the next life."""
        self.world.replies[:0] = [("", self.rng.choice([20, 40, 80])) for _ in range(3)]
        self.taint()
        await anyio.sleep(self.rng.choice([1, 3, 8]))
        await self.crash()

    async def crash_with_stale_list(self) -> None:
        """Crash a moment after evictions, and list pods as they were before."""
        self.taint_some()
        await anyio.sleep(self.rng.choice([1, 4]))
        self.world.list_lag_s = self.rng.choice([3, 10])
        await self.world.end_life(crash=True)
        self.world.begin_life()
        await anyio.sleep(1)
        self.world.list_lag_s = 0

    async def restart(self) -> None:
        await self.world.end_life(crash=False)
        await anyio.sleep(self.rng.choice([0.1, 5]))
        self.world.begin_life()

    def step_clock(self) -> None:
        self.world.step_clock(self.rng.choice([-7200, -600, -30, 30, 600, 7200]))

    async def suspend(self) -> None:
        """Stop the process for a minute, after which nothing that it knows is certain."""
        if (life := self.world.life) is None:
            return
        life.suspended_s += 60
        life.unsynced.update(life.pipeline.event_handlers)
        life.controller.pauses.check()
        await anyio.sleep(self.rng.choice([0, 1]))
        if self.world.life is life:
            life.list_all_again()

    def slow_disk(self) -> None:
        self.world.disk_delay_s = self.rng.choice([0.001, 0.5, 3])

    async def fill_disk(self) -> None:
        self.world.disk_is_full = True
        await anyio.sleep(self.rng.choice([0.5, 10]))
        self.world.disk_is_full = False

    # --- helpers ---

    def _note(self, action: str) -> None:
        self.log.append(f"{anyio.current_time():9.3f} s  {action}")

    def _nodes(self) -> list[str]:
        return [stored["metadata"]["name"] for stored in self.world.store.list("nodes")]

    def _node(self) -> str:
        return self.rng.choice(self._nodes())

    def _make_node(self, name: str, zone: str) -> None:
        with suppress(StatusError):
            self.world.store.create("nodes", node(f"{name}/{zone}", cpu="4"))

    def _edit_node(self, name: str, change: Callable[[Obj], Obj]) -> None:
        with suppress(StatusError):
            self.world.store.modify(
                "nodes", "", name, lambda stored: {**stored, "spec": change(stored["spec"])}
            )

    def _taint_node(self, name: str, taint: str) -> None:
        key, _, effect = taint.partition(":")
        self._edit_node(
            name,
            lambda spec: {
                **spec,
                "taints": [
                    *[t for t in spec.get("taints") or [] if t["key"] != key],
                    {"key": key, "effect": effect},
                ],
            },
        )

    def _edit_workload(self, change: Callable[[Obj], Obj]) -> None:
        for resource in ("deployments", "statefulsets"):
            found: Sequence[Obj] = self.world.store.list(resource)
            if found and self.rng.random() < 0.7:
                meta = self.rng.choice(found)["metadata"]
                self.world.store.modify(
                    resource,
                    meta["namespace"],
                    meta["name"],
                    lambda o: {**o, "spec": change(o["spec"])},
                )
                return

    def _annotate(self, resource: str, annotations: dict[str, str]) -> None:
        """Set the annotations of any object of a kind."""
        if found := self.world.store.list(resource):
            self._set_annotations(resource, self.rng.choice(found)["metadata"], annotations)

    def _set_all_annotations(self, resource: str, annotations: dict[str, str]) -> None:
        for stored in self.world.store.list(resource):
            self._set_annotations(resource, stored["metadata"], annotations)

    def _set_annotations(self, resource: str, meta: Obj, annotations: dict[str, str]) -> None:
        with suppress(StatusError):
            self.world.store.modify(
                resource,
                meta.get("namespace", ""),
                meta["name"],
                lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": annotations}},
            )


ACTIONS: Final = (
    *("taint", "taint", "taint", "taint", "taint", "taint", "untaint"),
    *("taint_some", "taint_some", "taint_some", "wait", "wait", "wait", "wait", "wait"),
    *("start_nodes", "start_nodes", "start_nodes", "uncordon", "uncordon", "long_wait", "cordon"),
    *("scale", "roll_out", "kill_pod", "add_node", "remove_node", "stop_node", "stop_zone"),
    *("protect", "unprotect", "budget", "lose_watch", "silent_watch"),
    *("bad_replies", "bad_replies", "outage", "crash", "restart"),
    *("crash_with_requests_held", "crash_with_requests_held", "crash_with_stale_list"),
    *("crash_where_clocks_differ", "crash_where_clocks_differ"),
    *("step_clock", "suspend", "fill_disk", "slow_disk"),
    *("pause", "resume", "resume", "resume", "pause_by_file"),
    *("protect_above", "unprotect_above", "unprotect_above", "protect_for_a_time"),
    *("find_evicted_pods", "find_evicted_pods", "leave_no_room"),
    *("disrupt_a_zone", "disrupt_a_zone", "lose_all_nodes", "lose_all_nodes_while_writing"),
    *("stop_what_is_decided", "stop_what_is_decided"),
    *("replace_siblings", "replace_siblings", "taint_all_softly"),
    *("change_size_of_found", "change_size_of_found"),
    *("protect_what_is_found", "drain_by_autoscaler", "find_stateful_sets", "find_stateful_sets"),
)
"""The steps of stories, as often as they are likely."""

SET_ACTIONS: Final = (
    *(each for each in ACTIONS if each not in ("taint_all_softly", "lose_all_nodes")),
    *("want_room",) * 8,
    *("want_no_room",) * 4,
    *("long_wait",) * 4,
    *("untaint", "uncordon") * 3,
)
"""The steps of stories in which pods move as sets, which need some calm for it."""

UNBROKEN: Final = tuple(
    each
    for each in ACTIONS
    if not any(word in each for word in ("clock", "crash", "restart", "suspend"))
)
"""The steps after which the same process goes on, with the same time of day."""

STEADY: Final = tuple(each for each in ACTIONS if "clock" not in each)
"""The steps by which nobody sets a time of day."""


Teller = Callable[[Story], Awaitable[None]]
"""Has the steps of a story played, one after the other."""


async def live(
    directory: Path,
    config: Configuration,
    chance: Random,
    choices: Random,
    tell: Teller,
    **how: Any,
) -> World:
    """Let a world live while a story is told there, and come to rest; raises Violation.

    The world goes its own way by `chance`, and `choices` are what the steps are about; `how` are
    options of the World.
    """
    world = World(directory, config, chance, **how)
    story = Story(world, choices)

    async def play() -> None:
        await tell(story)
        await story.end()

    failure: ExceptionGroup[Exception] | None = None
    try:
        await world.live(story.prepare, play)
    except ExceptionGroup as error:
        failure = error
    if failure is None:
        world.referee.check_end()
    else:  # outside of the handler: hypothesis takes failures with other contexts for others
        world.referee.raise_violations()
        raise failure
    return world


def read_policy(text: str) -> Configuration:
    """Read a policy and settings."""
    return load_sources([SourceText(text, "drawn policy")], _registry())


def play_story(
    rng: Random,
    directory: Path,
    *,
    steps: int = 80,
    actions: Sequence[str] = ACTIONS,
    after_step: Callable[[World], Awaitable[None]] | None = None,
    **how: Any,
) -> World:
    """Play the story that a source of randomness draws; raises Violation.

    `how` are options of the World, such as `records`. `after_step` is called after each step, which
    are drawn from the `actions`. The error has notes: the policy, and the last steps with the time
    at which each was played.
    """
    text = policy_text(rng)
    config = read_policy(text)
    task_order().seed(rng.randrange(1 << 30))
    if actions is ACTIONS and has_sets(config):
        actions = SET_ACTIONS
    log: list[str] = []

    async def tell(story: Story) -> None:
        nonlocal log
        log = story.log
        for _ in range(steps):
            await story.play(rng.choice(actions))
            if after_step is not None:
                await after_step(story.world)

    try:
        clock = MockClock(autojump_threshold=0)
        options = {"clock": clock}
        run = partial(live, directory, config, rng, rng, tell, **how)
        return anyio.run(run, backend="trio", backend_options=options)
    except BaseException as error:
        error.add_note("\n".join([text, *log[-80:]]))
        raise
