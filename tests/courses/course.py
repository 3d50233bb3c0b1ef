"""A drawn hour of a small cluster: workloads and nodes, and what happens to them and when.

What happens is drawn before it is played, so that the same hour can be played with the
descheduler, without it, and with it up to one of its evictions. Either most of it passes within a
minute, or it is work that takes half an hour: nodes are replaced or restarted one by one, a
workload is scaled out and in, Jobs come and end.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from reactive_desched.model.node_scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_condition
from reactive_desched.sim.objects import name_of
from reactive_desched.sim.pods import is_terminating, node_of
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster, node, workload

HOUR_S: Final = 3600.0
QUIET_S: Final = 900.0
"""So long before the first thing happens, and after the last one."""
SHORT_S: Final = (2.0, 5.0, 10.0, 20.0)
"""So long what passes lasts: less than any guard waits for."""
ZONES: Final = "abc"
ADDS_AFTER_S: Final = 60.0
"""An autoscaler adds a node once pods have waited for so long."""
REMOVES_AFTER_S: Final = 600.0
"""An autoscaler removes a node that has been used little for so long."""
LITTLE: Final = 0.5
ROOM_TO_SPARE: Final = 1.5
MOST_ADDED: Final = 4
WORKLOADS: Final = ("api", "db", "ui", "queue", "cache")


class Happening(NamedTuple):
    """Something that happens at a time, in seconds from the start: an `Hour`'s method by name."""

    at_s: float
    what: str
    args: tuple[Any, ...] = ()
    passes: bool = False


class Course(NamedTuple):
    """What an hour begins with, and what happens in it, in order of time.

    The scheduler spreads pods, or `packs` them; the cluster's nodes are as many as drawn, or
    `scales` with what its pods request.
    """

    seed: int
    nodes: tuple[tuple[str, str, str, str], ...]  # name, zone, pool, CPU
    workloads: tuple[tuple[str, str, int, dict[str, Any]], ...]  # resource, name, replicas, pod
    happenings: tuple[Happening, ...]
    packs: bool = False
    scales: bool = False


def drawn_course(seed: int, changes: int = 12, *, packs: bool = False) -> Course:
    """Draw an hour: most of what happens in it passes within a minute."""
    rng = Random(seed)
    nodes, workloads = _drawn_cluster(rng)
    happenings: list[Happening] = []
    for n in range(changes):
        at_s = QUIET_S + n * (HOUR_S - 2 * QUIET_S) / changes + rng.uniform(0, 60)
        happenings += _drawn_happenings(rng, at_s, nodes, workloads, n)
    return Course(seed, nodes, workloads, tuple(sorted(happenings)), packs)


def drawn_work(seed: int, *, packs: bool = False) -> Course:
    """Draw an hour with one or two kinds of work that take half of it."""
    rng = Random(seed)
    nodes, workloads = _drawn_cluster(rng)
    scales = rng.random() < 0.5
    happenings: list[Happening] = []
    for kind in rng.sample(_WORK, rng.randint(1, 2)):
        happenings += kind(rng, nodes, workloads)
    return Course(seed, nodes, workloads, tuple(sorted(happenings)), packs, scales)


def _drawn_cluster(rng: Random) -> tuple[Any, Any]:
    nodes = tuple(
        (f"n{n}", ZONES[n % 3], rng.choice(("blue", "green")), rng.choice(("2", "4", "4", "8")))
        for n in range(1, rng.randint(4, 7))
    )
    workloads = tuple(_drawn_workloads(rng))
    return nodes, workloads


def _drawn_workloads(rng: Random) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    for name in rng.sample(WORKLOADS, rng.randint(3, 5)):
        pod: dict[str, Any] = {
            "cpu": rng.choice(("100m", "250m", "500m", "1")),
            "memory": rng.choice(("128Mi", "512Mi", "1Gi")),
            "labels": {"role": rng.choice(("front", "back"))},
        }
        for rule in rng.sample(_POD_RULES, rng.randint(0, 2)):
            pod |= rule(rng, name)
        yield rng.choice(("deployments", "statefulsets")), name, rng.randint(1, 6), pod


def _spread(rng: Random, name: str) -> dict[str, Any]:
    labels = rng.choice(({"app": name}, {"role": "front"}))
    constraint = {
        "maxSkew": 1,
        "topologyKey": rng.choice((HOSTNAME, ZONE)),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [constraint]}


def _affinity(rng: Random, name: str) -> dict[str, Any]:
    expression = {"key": "pool", "operator": "In", "values": [rng.choice(("blue", "green"))]}
    term = {"matchExpressions": [expression]}
    weighted = [{"weight": 10, "preference": term}]
    apart = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": name}}}
    kinds: tuple[dict[str, Any], ...] = (
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }
        },
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    )
    return {"affinity": rng.choice(kinds)}


def _toleration(rng: Random, name: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}


_POD_RULES: Final[tuple[Callable[[Random, str], dict[str, Any]], ...]] = (
    _spread,
    _affinity,
    _toleration,
)


def _drawn_happenings(
    rng: Random, at_s: float, nodes: Any, workloads: Any, n: int
) -> Iterator[Happening]:
    """Draw one thing that happens, and its end where it passes."""
    name, zone, pool, cpu = rng.choice(nodes)
    resource, app, replicas, _ = rng.choice(workloads)
    other = rng.choice([each for each in ("blue", "green") if each != pool])
    both: dict[str, tuple[tuple[str, Any], tuple[str, Any]]] = {
        "taint": (
            ("taint", (name, rng.choice(("NoSchedule", "PreferNoSchedule")))),
            ("untaint", (name,)),
        ),
        "cordon": (("cordon", (name,)), ("uncordon", (name,))),
        "pool": (("label", (name, "pool", other)), ("label", (name, "pool", pool))),
        "no pool": (("label", (name, "pool", None)), ("label", (name, "pool", pool))),
        "zone": (
            ("label", (name, ZONE, rng.choice(ZONES))),
            ("label", (name, ZONE, zone)),
        ),
        "no zone": (("label", (name, ZONE, None)), ("label", (name, ZONE, zone))),
        "less CPU": (("allocatable", (name, "1")), ("allocatable", (name, cpu))),
        "scale in": (
            ("scale", (resource, app, rng.randint(0, max(replicas - 1, 0)))),
            ("scale", (resource, app, replicas)),
        ),
        "scale out": (
            ("scale", (resource, app, replicas + rng.randint(1, 4))),
            ("scale", (resource, app, replicas)),
        ),
        "job": (("job", (f"job-{n}", rng.randint(1, 4), "500m")), ("no_job", (f"job-{n}",))),
        "node gone": (("remove", (name,)), ("join", (name, zone, pool, cpu))),
        "node comes": (
            ("join", (f"m{n}", rng.choice(ZONES), pool, "4")),
            ("remove", (f"m{n}",)),
        ),
        "role": (("role", (app, "back")), ("role", (app, "front"))),
        "sick": (("condition", (name, "True")), ("condition", (name, "False"))),
        "pods fail": (("fail", (app, 1)), ("fail", (app, 1))),
        "roll out": (("roll_out", (resource, app, n)), ("roll_out", (resource, app, n + 100))),
    }
    (what, args), (ends, with_args) = both[rng.choice(sorted(both))]
    if rng.random() < 0.75:
        yield Happening(at_s, what, args, passes=True)
        yield Happening(at_s + rng.choice(SHORT_S), ends, with_args, passes=True)
    else:
        yield Happening(at_s, what, args)


def _nodes_replaced(rng: Random, nodes: Any, workloads: Any) -> Iterator[Happening]:
    """An upgrade: one node more joins, then each old one is drained and a new one joins."""
    each_s = (HOUR_S - 2 * QUIET_S) / len(nodes)
    _, zone, pool, cpu = nodes[0]
    yield Happening(QUIET_S - 60, "join", ("surge", zone, pool, cpu))
    for n, (name, zone, pool, cpu) in enumerate(nodes):
        at_s = QUIET_S + n * each_s
        yield Happening(at_s, "cordon", (name,))
        yield Happening(at_s + 5, "drain", (name,))
        yield Happening(at_s + rng.uniform(40, 90), "remove", (name,))
        yield Happening(at_s + rng.uniform(100, 200), "join", (f"{name}-new", zone, pool, cpu))
    yield Happening(HOUR_S - QUIET_S, "drain", ("surge",))
    yield Happening(HOUR_S - QUIET_S + 30, "remove", ("surge",))


def _nodes_restarted(rng: Random, nodes: Any, workloads: Any) -> Iterator[Happening]:
    """Each node is drained and restarts, as kured does it."""
    each_s = (HOUR_S - 2 * QUIET_S) / len(nodes)
    for n, (name, *_) in enumerate(nodes):
        at_s = QUIET_S + n * each_s
        yield Happening(at_s, "cordon", (name,))
        yield Happening(at_s + 5, "drain", (name,))
        yield Happening(at_s + rng.uniform(90, 200), "uncordon", (name,))


def _scaled_out_and_in(rng: Random, nodes: Any, workloads: Any) -> Iterator[Happening]:
    """An autoscaler follows a metric that swings."""
    resource, app, replicas, _ = rng.choice(workloads)
    more, period_s = replicas + rng.randint(1, 5), rng.uniform(240, 480)
    at_s = QUIET_S
    while at_s < HOUR_S - QUIET_S:
        yield Happening(at_s, "scale", (resource, app, more))
        yield Happening(at_s + period_s * rng.uniform(0.3, 0.7), "scale", (resource, app, replicas))
        at_s += period_s


def _jobs_come_and_end(rng: Random, nodes: Any, workloads: Any) -> Iterator[Happening]:
    """A CronJob's pods run for a part of each of its periods."""
    period_s, pods, cpu = rng.choice((120, 300, 300)), rng.randint(1, 4), rng.choice(("500m", "1"))
    for n, at_s in enumerate(range(int(QUIET_S), int(HOUR_S - QUIET_S), period_s)):
        yield Happening(at_s, "job", (f"cron-{n}", pods, cpu))
        yield Happening(at_s + period_s * rng.uniform(0.3, 0.9), "no_job", (f"cron-{n}",))


def _rolled_out_often(rng: Random, nodes: Any, workloads: Any) -> Iterator[Happening]:
    """A morning of releases: workloads roll out, one after the other."""
    at_s = QUIET_S
    for n in range(100, 120):
        resource, app, *_ = rng.choice(workloads)
        yield Happening(at_s, "roll_out", (resource, app, n))
        at_s += rng.uniform(40, 200)
        if at_s > HOUR_S - QUIET_S:
            return


_WORK: Final[tuple[Callable[[Random, Any, Any], Iterator[Happening]], ...]] = (
    _nodes_replaced,
    _nodes_restarted,
    _scaled_out_and_in,
    _jobs_come_and_end,
    _rolled_out_often,
)


class Hour:
    """A simulated cluster in which what was drawn happens; each method is one kind of it."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._pending_since_s: float | None = None
        self._little_since_s: dict[str, float] = {}
        self._added = 0
        scoring = MOST_ALLOCATED if course.packs else LEAST_ALLOCATED
        self.world = SimulatedCluster(chance=course.seed, scoring=scoring)
        for name, zone, pool, cpu in course.nodes:
            self.join(name, zone, pool, cpu)
        for resource, name, replicas, pod in course.workloads:
            spec = workload(name, replicas, **pod)
            if resource == "statefulsets":
                spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
            self.world.create(resource, name, spec)

    def happen(self, happening: Happening) -> None:
        """Let one thing happen; what concerns an object that is gone changes nothing."""
        getattr(self, happening.what)(*happening.args)

    def join(self, name: str, zone: str, pool: str, cpu: str) -> None:
        if self._has("nodes", name):
            return
        labels = {"pool": pool}
        self.world.store.create("nodes", node(f"{name}/{zone}", labels=labels, cpu=cpu))
        self.world.cluster.settle()

    def remove(self, name: str) -> None:
        if self._has("nodes", name):
            self.world.delete("nodes", name)

    def taint(self, name: str, effect: str) -> None:
        self._set_taints(name, {"key": "maintenance", "value": "now", "effect": effect})

    def untaint(self, name: str) -> None:
        self._set_taints(name)

    def cordon(self, name: str) -> None:
        self._set_spec(name, unschedulable=True)

    def uncordon(self, name: str) -> None:
        self._set_spec(name, unschedulable=False)

    def drain(self, name: str) -> None:
        """Evict the pods of a node, as `kubectl drain` does."""
        for pod in self.world.pods():
            if node_of(pod) == name and not is_terminating(pod):
                self.world.evict(name_of(pod))

    def autoscale(self) -> None:
        """Add a node for pods that wait for a minute, and drain one that is little used for ten.

        As the cluster-autoscaler with its defaults, a node at a time, and by CPU alone.
        """
        now = self.world.clock.now()
        nodes = self.course.nodes
        _, zone, pool, cpu = nodes[self._added % len(nodes)]
        if not any(not node_of(pod) and _would_fit(pod, pool, cpu) for pod in self.world.pods()):
            self._pending_since_s = None
        elif now - (self._pending_since_s or now) < ADDS_AFTER_S:
            self._pending_since_s = self._pending_since_s or now
        elif len(self._open_nodes()) < len(nodes) + MOST_ADDED:
            self._pending_since_s, self._added = None, self._added + 1
            self.join(f"auto{self._added}", zone, pool, cpu)
        self._scale_in(now)

    def _scale_in(self, now: float) -> None:
        requested: dict[str, float] = {}
        for pod in self.world.pods():
            requested[node_of(pod)] = requested.get(node_of(pod), 0.0) + _cpu(pod)
        nodes = {name_of(n): float(n["status"]["capacity"]["cpu"]) for n in self._open_nodes()}
        for name, cpu in nodes.items():
            if requested.get(name, 0.0) >= cpu * LITTLE:
                self._little_since_s.pop(name, None)
            elif now - self._little_since_s.setdefault(name, now) >= REMOVES_AFTER_S:
                free = [room - requested.get(n, 0.0) for n, room in nodes.items() if n != name]
                if sum(free) >= requested.get(name, 0.0) * ROOM_TO_SPARE:
                    self._little_since_s.clear()
                    self.cordon(name)
                    self.drain(name)
                    self.remove(name)
                    return

    def _open_nodes(self) -> list[Any]:
        nodes = self.world.store.list("nodes")
        return [each for each in nodes if not each["spec"].get("unschedulable")]

    def _set_taints(self, name: str, *taints: Any) -> None:
        if (stored := self.world.store.get("nodes", "", name)) is not None:
            others = [t for t in stored["spec"].get("taints") or () if t["key"] != "maintenance"]
            self._set_spec(name, taints=[*others, *taints])

    def _set_spec(self, name: str, **fields: Any) -> None:
        self._modify("nodes", name, lambda n: {**n, "spec": {**n["spec"], **fields}})

    def label(self, name: str, key: str, value: str | None) -> None:
        self._modify("nodes", name, lambda n: _labelled(n, key, value))

    def role(self, app: str, value: str) -> None:
        """Label the first pod of a workload."""
        for each in sorted(self.world.names(app))[:1]:
            self._modify("pods", each, lambda p: _labelled(p, "role", value))

    def allocatable(self, name: str, cpu: str) -> None:
        def change(obj: Any) -> Any:
            status = obj["status"]
            room = {**(status.get("allocatable") or status["capacity"]), "cpu": cpu}
            return {**obj, "status": {**status, "allocatable": room}}

        self._modify("nodes", name, change, subresource="status")

    def condition(self, name: str, status: str) -> None:
        at = rfc3339(self.world.clock.now())

        def change(obj: Any) -> Any:
            old = obj["status"].get("conditions") or []
            conditions = with_condition(old, {"type": "Sick", "status": status}, at)
            return {**obj, "status": {**obj["status"], "conditions": conditions}}

        self._modify("nodes", name, change, subresource="status")

    def scale(self, resource: str, app: str, replicas: int) -> None:
        self.world.edit(resource, app, replicas=replicas)

    def roll_out(self, resource: str, app: str, n: int) -> None:
        def change(obj: Any) -> Any:
            template = obj["spec"]["template"]
            meta = {**template["metadata"], "annotations": {"rolled-out": str(n)}}
            return {**obj, "spec": {**obj["spec"], "template": {**template, "metadata": meta}}}

        self._modify(resource, app, change)

    def job(self, name: str, pods: int, cpu: str) -> None:
        template = workload(name, 1, cpu=cpu, memory="128Mi")["template"]
        template["spec"]["restartPolicy"] = "Never"
        self.world.create(
            "jobs", name, {"parallelism": pods, "completions": pods, "template": template}
        )

    def no_job(self, name: str) -> None:
        if self._has("jobs", name):
            self.world.delete("jobs", name)

    def fail(self, app: str, pods: int) -> None:
        for each in sorted(self.world.names(app))[:pods]:
            self.world.delete("pods", each)

    def _has(self, resource: str, name: str) -> bool:
        namespace = "" if resource == "nodes" else "default"
        return self.world.store.get(resource, namespace, name) is not None

    def _modify(self, resource: str, name: str, change: Any, **more: Any) -> None:
        if self._has(resource, name):
            namespace = "" if resource == "nodes" else "default"
            self.world.store.modify(resource, namespace, name, change, **more)
            self.world.cluster.settle()


def _would_fit(pod: Any, pool: str, cpu: str) -> bool:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return _cpu(pod) <= float(cpu) and (not required or f"'{pool}'" in str(required))


def _cpu(pod: Any) -> float:
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    cpu = requests.get("cpu", "0")
    return float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)


def _labelled(obj: Any, key: str, value: str | None) -> Any:
    labels = {k: v for k, v in obj["metadata"]["labels"].items() if k != key}
    if value is not None:
        labels[key] = value
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}
