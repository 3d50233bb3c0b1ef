"""Random histories of migration jobs: whatever happens, and in whichever order, some rules hold.

People make, pause, resume, abort and delete jobs while plugins have others made; pods and
placeholders are deleted, pods replaced, nodes tainted and cordoned; budgets refuse, the API server
fails, refuses, and loses answers; the process is killed and another one takes over. The deep tier
draws as many histories as EXAMPLES.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.migration_jobs import PLACEHOLDER_OF, MigrationJob, Mode, Phase
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import PdbRefused, ServerError, TooManyRequests
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.migration import MigrationJobSettings, PlaceholderSettings
from reactive_desched.testing.builders import node, pod
from tests.support.migrating import JobServer, MigratingController, job_on

MOST_JOBS, MOST_PER_NODE, MOST_PER_WORKLOAD = 4, 3, 2
NODES = [node("n1"), node("n2"), node("n3")]
TAINTED = node("n1", "gpu:NoSchedule")
WORKLOADS = ("ReplicaSet/web", "ReplicaSet/api", "ReplicaSet/cache")
PODS = [
    pod(f"p{number}-", on=f"n{number % 3 + 1}", owner=WORKLOADS[number // 7])
    for number in range(20)
]

PEOPLE, PEOPLE_AND_PLUGINS = "people", "people and plugins"
"""Who makes jobs."""

TO_PEOPLE: Final = ("job", "job", "job", "short job", "job of a uid", "pause", "resume", "abort")
TO_CLUSTER: Final = ("delete job", "delete pod", "taint", "untaint", "room")
TO_PLACES: Final = ("delete placeholder", "cordon", "uncordon", "orphan")
TO_SERVER: Final = ("refuse", "fail", "lose answer", "answer late", "down", "up")

NOT_EVICTED: Final = ("MissingPod", "MissingReservation", "ForbiddenMigratePod", "AbortedByPerson")
"""Reasons of jobs that did not evict their pods."""

events = st.tuples(
    st.sampled_from((*TO_PEOPLE, *TO_CLUSTER, *TO_PLACES, *TO_SERVER)),
    st.integers(0, 19),
    st.sampled_from([0.0, 0.003, 0.01, 0.4, 3.0, 30.0]),
)
lives = st.lists(st.lists(events, max_size=20), min_size=1, max_size=4)
"""What happens while each of several processes runs; the next one begins where one was killed."""


class Cluster(Struct):
    """What outlives the processes, and what was found wrong while they ran."""

    server: JobServer
    settings: MigrationJobSettings
    mode: Mode
    makes_jobs: bool
    numbers: Iterator[int]
    nodes: dict[str, Any]
    withdrawn: dict[str, float]
    places_differ_at: float
    evicting: set[str]
    faults: list[str]


@settings(max_examples=max(25, settings().max_examples))
@given(lives, st.sampled_from(Mode), st.sampled_from([PEOPLE, PEOPLE_AND_PLUGINS]))
def test_in_any_history_each_job_evicts_once_at_most_and_ends_and_limits_hold(
    lives: list[list[tuple[str, int, float]]], mode: Mode, who: str
) -> None:
    import trio.testing

    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(_live, lives, mode, who, backend="trio", backend_options={"clock": clock})


async def _live(lives: list[list[tuple[str, int, float]]], mode: Mode, who: str) -> None:
    job_settings = MigrationJobSettings(
        default_job_mode=mode,
        placeholder=PlaceholderSettings(),
        max_migrating_globally=MOST_JOBS,
        max_migrating_per_node=MOST_PER_NODE,
        max_migrating_per_workload=MOST_PER_WORKLOAD,
    )
    server = JobServer()
    server.pods = {each.uid: each for each in PODS}
    server.replaces = True
    cluster = Cluster(
        server=server,
        settings=job_settings,
        mode=mode,
        makes_jobs=who == PEOPLE_AND_PLUGINS,
        numbers=count(1),
        nodes={each.name: each for each in NODES},
        withdrawn={},
        places_differ_at=-1.0,
        evicting=set(),
        faults=[],
    )
    server.on_write = lambda: cluster.faults.extend((*_exceeded(server), *_denied(cluster)))
    server.on_eviction = lambda pod: cluster.faults.extend(_unwarranted(cluster, pod))
    for life in lives:
        async with _process(cluster) as process:
            for event in life:
                await _happen(cluster, process, *event)
    async with _process(cluster) as process:
        _calm_down(cluster, process)
        await anyio.sleep(400)
        faults = [*cluster.faults, *_after_evictions(server)]
        faults += (f"{job.name} has not ended" for job in server.jobs.values() if not job.has_ended)
        faults += _places_left(server)
        await anyio.sleep(400)
        faults += (f"{name} is left" for name in server.jobs)
        faults += _places_left(server)
    assert not faults


def _process(cluster: Cluster) -> Any:  # a context manager
    plugins = (NodeTaintsPlugin(NodeTaintsArgs()),) if cluster.makes_jobs else ()
    process = MigratingController(cluster.server, cluster.settings, *plugins)
    return process.running(*cluster.nodes.values(), past=list(cluster.server.evictions))


def _calm_down(cluster: Cluster, process: MigratingController) -> None:
    """Let every job end: nothing holds one any more."""
    server = cluster.server
    server.is_down, server.has_room, server.lost_answers = False, True, 0
    server.answers_after_s = 0
    for each in NODES:
        cluster.nodes[each.name] = each
        process.fed.deliver(each)
    for name, job in tuple(server.jobs.items()):
        if job.is_paused:
            process.edit(name, is_paused=False)


async def _happen(
    cluster: Cluster, process: MigratingController, verb: str, number: int, wait_s: float
) -> None:
    server = cluster.server
    if verb in TO_PEOPLE or verb == "delete job":
        _do_by_hand(cluster, process, verb, number)
    elif verb in TO_SERVER:
        _disturb(process, verb, number)
    elif verb in TO_PLACES:
        _spoil_places(cluster, process, verb, number)
    elif verb == "room":
        server.has_room = not server.has_room
    elif verb == "delete pod":
        if (one := _pod_at(server, number)).uid in server.pods:
            process.delete_pod(one)
    else:
        cluster.nodes["n1"] = changed = TAINTED if verb == "taint" else NODES[0]
        process.fed.deliver(changed)
    await anyio.sleep(wait_s)


def _do_by_hand(cluster: Cluster, process: MigratingController, verb: str, number: int) -> None:
    server, one = cluster.server, _pod_at(cluster.server, number)
    open_jobs = [job for job in server.jobs.values() if job.pod.name == one.name]
    if verb in ("delete job", "pause", "abort"):
        cluster.withdrawn[one.name] = anyio.current_time()
    match verb:
        case "job" | "short job" | "job of a uid":
            made = job_on(one, f"{one.name}-by-hand-{next(cluster.numbers)}")
            if verb == "short job":
                made = replace(made, ttl_s=20.0)
            if verb == "job of a uid":
                made = replace(made, pod=replace(made.pod, uid=one.uid))
            process.fed.deliver(server.put(made))
        case "delete job" if open_jobs:
            process.delete_job(open_jobs[0].name)
        case "pause" | "resume" if open_jobs:
            process.edit(open_jobs[0].name, is_paused=verb == "pause")
        case "abort" if open_jobs:
            process.edit(open_jobs[-1].name, is_to_be_aborted=True)


def _spoil_places(cluster: Cluster, process: MigratingController, verb: str, number: int) -> None:
    """Take a placeholder away, or let the node of all placeholders take no more pods."""
    server = cluster.server
    cluster.places_differ_at = anyio.current_time()
    kept = [each for each in server.pods.values() if _keeps_place(each)]
    if verb in ("cordon", "uncordon"):
        cluster.nodes["n3"] = changed = replace(NODES[2], unschedulable=verb == "cordon")
        process.fed.deliver(changed)
    elif kept and verb == "delete placeholder":
        process.delete_pod(kept[number % len(kept)])
    elif kept:
        one = kept[number % len(kept)]
        server.pods[one.uid] = orphan = replace(one, owners=())
        process.fed.deliver(orphan)
        if (name := one.owners[0].name if one.owners else "") in server.jobs:
            cluster.withdrawn[server.jobs[name].pod.name] = anyio.current_time()
            process.delete_job(name)


def _disturb(process: MigratingController, verb: str, number: int) -> None:
    server = process.server
    match verb:
        case "down" | "up":
            server.is_down = verb == "down"
        case "lose answer":
            server.lost_answers += 1
        case "answer late":
            server.answers_after_s = float(number % 4)  # with 3 the pod is gone before
        case "refuse" | "fail":
            refusals = PdbRefused("no"), TooManyRequests("later", 1.0), ServerError(500, "no")
            answer = refusals[0] if verb == "refuse" else refusals[1 + number % 2]
            process.evictor.script.setdefault(_pod_at(server, number).name, []).append(answer)


def _pod_at(server: JobServer, number: int) -> Pod:
    """Return the pod that is there in the place of one of the first, or the last that was."""
    return max(
        (each for each in server.pods.values() if each.name.startswith(PODS[number].name)),
        key=lambda each: each.name,
        default=PODS[number],
    )


def _places_left(server: JobServer) -> list[str]:
    """Say which placeholders are left though every job has ended."""
    return [f"{each.name} is left" for each in server.pods.values() if _keeps_place(each)]


def _keeps_place(each: Pod) -> bool:
    return PLACEHOLDER_OF in each.labels


def _exceeded(server: JobServer) -> Iterator[str]:
    """Say which limits more pods are moved than; several jobs of one pod move one pod.

    The limit of a node does not count a pod that had none yet when its job was made.
    """
    moving = [
        job
        for job in server.jobs.values()
        if job.phase is Phase.RUNNING or (job.is_pending and job.has_passed)
    ]
    if (number := len({job.pod.name for job in moving})) > MOST_JOBS:
        yield f"{number} pods move"
    found = (_pod_of(server, job) for job in moving)
    pods = {each.uid: each for each in found if each is not None}.values()
    placed = [job for job in moving if job.name not in server.made_without_node]
    on_nodes = {each.uid: each for each in (_pod_of(server, job) for job in placed) if each}
    for name, number in Counter(each.node for each in on_nodes.values()).items():
        if number > MOST_PER_NODE:
            yield f"{number} pods of {name} move"
    owners: Counter[OwnerReference] = Counter(each.owners[0] for each in pods)
    for owner, number in owners.items():
        if number > MOST_PER_WORKLOAD:
            yield f"{number} pods of {owner.name} move"


def _unwarranted(cluster: Cluster, evicted: Pod) -> Iterator[str]:
    """Say why a pod should not have been evicted just now.

    Its request may have been on its way already when a person withdrew the job.
    """
    server = cluster.server
    jobs = [job for job in server.jobs.values() if _pod_of(server, job) is evicted]
    cluster.evicting.update(job.name for job in jobs if _may_evict(job))
    is_just_withdrawn = cluster.withdrawn.get(evicted.name) == anyio.current_time()
    if not (is_just_withdrawn or any(_may_evict(job) for job in jobs)):
        yield f"{evicted.name} is evicted, and of its jobs {jobs} none asks for it"
    if cluster.mode is Mode.RESERVATION_FIRST and not is_just_withdrawn:
        yield from _without_place(cluster, evicted, jobs)
    if _keeps_place(evicted):
        yield f"a placeholder is evicted: {evicted.name}"


def _without_place(cluster: Cluster, evicted: Pod, jobs: list[MigrationJob]) -> Iterator[str]:
    """Say that no place was kept for a pod's replacement, or none that it could take."""
    if cluster.places_differ_at == anyio.current_time():
        return
    names = {f"placeholder-{job.uid}" for job in jobs}
    if not any(each.name in names and each.node for each in cluster.server.pods.values()):
        yield f"{evicted.name} is evicted without a place"
    if cluster.nodes["n3"].unschedulable:
        yield f"{evicted.name} is evicted for a place on a cordoned node"


def _may_evict(job: MigrationJob) -> bool:
    return job.phase is Phase.RUNNING and not job.is_paused and not job.is_to_be_aborted


def _denied(cluster: Cluster) -> Iterator[str]:
    """Say which jobs evicted their pods, and end as if they had not."""
    for name in cluster.evicting & cluster.server.jobs.keys():
        if (reason := cluster.server.jobs[name].status.reason) in NOT_EVICTED:
            yield f"{name} evicted its pod, and ends with {reason}"


def _after_evictions(server: JobServer) -> Iterator[str]:
    for name, number in Counter(server.evictions).items():
        if number > 1:
            yield f"{name} is evicted {number} times"


def _pod_of(server: JobServer, job: MigrationJob) -> Pod | None:
    """Return the pod that a job names, as the server has it."""
    found = (each for each in server.pods.values() if each.name == job.pod.name)
    return next((each for each in found if job.pod.uid in ("", each.uid)), None)
