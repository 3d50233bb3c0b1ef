"""Migration jobs in large numbers: one change among many jobs in flight, a round over many waiting.

python -m bench.measure.migration [IN_FLIGHT [WAITING]]
"""

import json
import statistics
import sys
import time

from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.migration.migrations import Migrations
from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod

NODES, PODS_PER_NODE, PODS_PER_OWNER = 1000, 20, 100
NOW_S = 1000.0
ROUNDS = 7
EVICTING = JobStatus(Phase.RUNNING, conditions=(JobCondition("Eviction", "False", "Evicting"),))


class Jobs:
    """A cluster with jobs, of which the first are in flight and the others wait."""

    def __init__(self, in_flight: int, waiting: int) -> None:
        self.state = ClusterState()
        view = ClusterView(self.state, lambda: NOW_S)
        node_fit = SchedulerNodeFit(view, lambda: NOW_S)
        self.migrations = Migrations(
            view, MigrationJobSettings(), EvictionLedger(view), node_fit, lambda: NOW_S, float
        )
        self.state.keep_indexes((kind, None) for kind in self.migrations.indexes)
        for number in range(NODES):
            self.state.upsert(node(f"n{number}"))
        pods = [
            pod(f"p{each}", on=f"n{each % NODES}", owner=f"ReplicaSet/r{each // PODS_PER_OWNER}")
            for each in range(NODES * PODS_PER_NODE)
        ]
        for each in pods:
            self.state.upsert(each)
        step = len(pods) // (in_flight + waiting)
        self.jobs = [
            _job(number, pods[number * step], is_in_flight=number < in_flight)
            for number in range(in_flight + waiting)
        ]
        for job in self.jobs:
            self.put(job)

    def put(self, job: MigrationJob) -> None:
        """Take in a job as the watch brings it, and find out what is to be done."""
        self.migrations.apply_changes(self.state.upsert(job), time.monotonic())
        while (name := self.migrations.queue.take()) is not None:
            self.migrations.action_of(name)


def _job(number: int, of: Pod, *, is_in_flight: bool) -> MigrationJob:
    return MigrationJob(
        name=f"j{number}",
        uid=f"j{number}",
        pod=PodReference(of.namespace, of.name, of.uid),
        resource_version=number + 1,
        created_s=900,
        ttl_s=300.0,
        status=EVICTING if is_in_flight else JobStatus(),
        has_passed=is_in_flight,
    )


def change_us(in_flight: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of one change of a job, in microseconds."""
    jobs, took = Jobs(in_flight, 0), []
    for number, job in enumerate(jobs.jobs[:2000]):
        changed = replace(job, resource_version=10**7 + number, cause="another")
        began = time.process_time()
        jobs.put(changed)
        took.append(time.process_time() - began)
    took.sort()
    return statistics.median(took) * 1e6, took[len(took) * 99 // 100] * 1e6


def round_ms(in_flight: int, waiting: int) -> tuple[float, float]:
    """Return how long the fastest round took, and its longest hold of the loop, in milliseconds."""
    best = hold = float("inf")
    for _ in range(ROUNDS):
        jobs, longest = Jobs(in_flight, waiting), 0.0
        began = last = time.process_time()
        for _ in jobs.migrations.rounds.findings({}):
            now = time.process_time()
            last, longest = now, max(longest, now - last)
        best, hold = min(best, last - began), min(hold, longest)
    return best * 1e3, hold * 1e3


def question_us(in_flight: int) -> float:
    """Return how long it takes to ask whether a job may be made, after a change of another."""
    jobs, took = Jobs(in_flight, 0), []
    asked = pod("asked", on="n0", owner="ReplicaSet/r0")
    for number, job in enumerate(jobs.jobs[:1000]):
        jobs.put(replace(job, resource_version=10**7 + number, cause="another"))
        began = time.process_time()
        jobs.migrations.admission.rejects(asked)
        took.append(time.process_time() - began)
    return statistics.median(took) * 1e6


def main() -> None:
    """Measure and print JSON."""
    in_flight, waiting = (*map(int, sys.argv[1:]), *(5000, 1000)[len(sys.argv) - 1 :])
    median, p99 = change_us(in_flight)
    alone_ms, _ = round_ms(0, waiting)
    beside_ms, hold_ms = round_ms(in_flight, waiting)
    found = {
        "in_flight": in_flight,
        "waiting": waiting,
        "change_us": {"median": round(median, 1), "p99": round(p99, 1)},
        "question_us": round(question_us(in_flight), 1),
        "round_ms": round(alone_ms, 1),
        "round_beside_in_flight_ms": round(beside_ms, 1),
        "longest_hold_ms": round(hold_ms, 2),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
