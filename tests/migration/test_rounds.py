"""Rounds over migration jobs: the pods that they yield, and for what the others wait."""

import pytest
from msgspec.structs import replace

from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.job_state import Modes
from reactive_desched.migration.limits import TOO_MANY_ON_NODE, WorkloadSize
from reactive_desched.migration.rounds import JobRounds, job_of
from reactive_desched.migration.settings import ArbitrationSettings
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import JobStatus, MigrationJob, Phase, PodReference
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.testing.builders import pod


class Cluster:
    """Two pods of one node, with a job each; one at a time may move from there."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.state.keep_indexes([(JobPods, None)])
        self.view = ClusterView(self.state, lambda: 1000.0)
        self.arbitrator = Arbitrator(
            ArbitrationSettings(max_migrating_per_node=1),
            self.view,
            lambda job: self.view.index(JobPods).pod_of(job),
            lambda _: WorkloadSize(9),
        )
        self.queue = JobQueue(lambda: 1000.0, Wakeup())
        self.rounds = JobRounds(
            self.view,
            MigrationJobSettings(),
            Modes(),
            self.arbitrator,
            self.queue,
            lambda: 1000.0,
            lambda: 0.0,
        )
        self.pods = [pod(name, on="n1", owner="ReplicaSet/web") for name in ("a", "b")]
        for each in self.pods:
            self.state.upsert(each)
            self.put(_job(each))

    def put(self, job: MigrationJob, *, is_evicted: bool = False) -> None:
        """Store a job, and follow it."""
        self.state.upsert(job)
        self.arbitrator.follow(job)
        self.rounds.follow(job, is_evicted=is_evicted)

    def found(self) -> list[Finding]:
        """Run a round, and return its findings."""
        return [each for each in self.rounds.findings({}) if isinstance(each, Finding)]


def _job(of: Pod) -> MigrationJob:
    return MigrationJob(name=f"j-{of.name}", uid=f"j-{of.name}", pod=PodReference.to(of))


def _taken(queue: JobQueue) -> list[str | None]:
    return list(iter(queue.take, None))


def test_a_round_queues_the_job_that_begins_and_yields_the_pod_of_the_one_that_waits() -> None:
    cluster = Cluster()

    (waiting,) = cluster.found()

    assert waiting.pod.name == "b"
    assert _taken(cluster.queue) == ["j-a"]
    assert job_of(waiting, cluster.view) == _job(cluster.pods[1])
    refusal = cluster.rounds.check(waiting, 0.0)
    assert refusal is not None
    assert refusal.reason == TOO_MANY_ON_NODE.code


@pytest.mark.parametrize(
    ("is_evicted", "yields"),
    [pytest.param(False, ["a"], id="asked for"), pytest.param(True, [], id="accepted")],
)
def test_the_pod_of_a_running_job_is_yielded_until_its_eviction_is_accepted(
    yields: list[str], *, is_evicted: bool
) -> None:
    cluster = Cluster()
    running = replace(_job(cluster.pods[0]), has_passed=True, status=JobStatus(Phase.RUNNING))
    cluster.put(running, is_evicted=is_evicted)
    first = [each.pod.name for each in cluster.found() if each.pod.name == "a"]

    assert first == yields


def test_what_a_gate_lets_a_job_wait_for_is_remembered_until_the_job_is_gone() -> None:
    cluster = Cluster()
    (waiting,) = cluster.found()
    refusal = cluster.rounds.check(waiting, 0.0)
    assert refusal is not None

    cluster.rounds.blocked(refusal)

    wait = cluster.rounds.wait_of("j-b")
    assert wait is not None
    assert (wait.reason, wait.since_s) == (TOO_MANY_ON_NODE.code, 1000.0)
    cluster.arbitrator.forget("j-b")
    cluster.rounds.forget("j-b")
    assert cluster.rounds.wait_of("j-b") is None
    assert cluster.rounds.check(waiting, 0.0) is None
