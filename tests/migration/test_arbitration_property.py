"""What arbitration follows: after any changes a round decides as one over the same jobs anew."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.migration.migrations import Migrations
from reactive_desched.model.findings import YieldPoint
from reactive_desched.model.migration_jobs import JobStatus, MigrationJob, Phase, PodReference
from reactive_desched.model.objects import Pod, ReplicaSet
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod

NOW_S = 1000.0
NAMES = ("a", "b", "c")
SETTINGS = MigrationJobSettings.model_validate(
    {
        "maxMigratingGlobally": 2,
        "maxMigratingPerNode": 1,
        "maxMigratingPerWorkload": 2,
        "maxUnavailablePerWorkload": 2,
        "evictAllBarePods": True,
        "skipEvictionGates": ["ExpectedReplicas"],
    }
)

pods = st.builds(
    lambda name, life, on, owner: pod(name, uid=f"{name}{life}", on=on, owner=owner),
    st.sampled_from(NAMES),
    st.sampled_from([1, 1, 1, 2]),  # a uid that was deleted never comes back
    on=st.sampled_from(["n1", "n1", "n2", None]),
    owner=st.sampled_from(["ReplicaSet/r1", "ReplicaSet/r2", "Job/j"]),
)
jobs = st.builds(
    lambda name, of, uid, phase, has_passed: MigrationJob(
        name=name,
        uid=name,
        pod=PodReference("default", of, uid and of + uid),
        status=JobStatus(phase),
        has_passed=has_passed,
    ),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from(NAMES),
    st.sampled_from(["", "", "1", "3"]),
    st.sampled_from([*Phase, *[Phase.NONE] * 6]),
    st.booleans(),
)
steps = st.lists(
    st.tuples(pods | jobs, st.sampled_from([False] * 5 + [True])), min_size=10, max_size=24
)


def make_migrations(state: ClusterState) -> Migrations:
    """Return the migrations over a cluster."""
    view = ClusterView(state, lambda: NOW_S)
    node_fit = SchedulerNodeFit(view, lambda: NOW_S)
    return Migrations(view, SETTINGS, EvictionLedger(view), node_fit, lambda: NOW_S, float)


def restrictions(migrations: Migrations, there: list[Pod]) -> object:
    """Return what forbids a job of each pod now, and how many evictions are to come beside it."""
    admission = migrations.admission
    return [
        (admission.rejects(of), admission.evictions_to_come(of, "node"), str(of)) for of in there
    ]


def run_round(migrations: Migrations) -> object:
    """Return the findings of a round, why each waits, and which jobs have passed after it."""
    round_ = (each for each in migrations.rounds.findings({}) if not isinstance(each, YieldPoint))
    found = [(each.message, migrations.rounds.check(each, NOW_S)) for each in round_]
    return found, {job.name: job.has_passed for job in migrations.jobs}


@given(steps)
def test_arbitration_that_follows_changes_decides_as_one_that_begins_now(
    steps: list[tuple[Pod | MigrationJob, bool]],
) -> None:
    state = ClusterState()
    followed = make_migrations(state)
    state.keep_indexes((kind, None) for kind in followed.indexes)
    for name in ("n1", "n2"):
        state.upsert(node(name))
    for name in ("r1", "r2"):
        state.upsert(ReplicaSet(f"owner-{name}", replicas=5))
    for version, (made, is_removed) in enumerate(steps, 1):
        stored = replace(made, resource_version=version)
        change = partial(state.remove if is_removed else state.upsert, stored)
        followed.apply_changes(change(), 0.0)
        fresh = make_migrations(state)
        fresh.follow_all()
        there = sorted(state.pods, key=str)

        assert restrictions(followed, there) == restrictions(fresh, there)

    assert run_round(followed) == run_round(fresh)
