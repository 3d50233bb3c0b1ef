"""The migration jobs of a snapshot: which of them a round of koordinator's arbitration lets go."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.arbitration import Arbitrator, Forbidden, Held, Passed
from reactive_desched.migration.settings import arbitration_settings
from reactive_desched.migration.workload_sizes import INDEXES, workload_size
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE, MigrationJob
from reactive_desched.model.objects import Pod
from reactive_desched.plan.evaluation import first_owner, pod_ref
from reactive_desched.plan.report import GateRejection, PlannedDecision
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Profile
from reactive_desched.state.cluster import ClusterView

__all__ = ["arbitrate_jobs"]

NO_PLUGIN: Final = "MigrationJobs"
"""The plugin of a job that does not name what made it."""


def arbitrate_jobs(
    configuration: Configuration, snapshot: Snapshot, now_s: float
) -> Iterator[PlannedDecision]:
    """Yield what a round decides on each waiting job whose pod is there, in koordinator's order.

    Nothing is evicted meanwhile: a job that is let go counts against those after it. As koordinator
    does, it takes the pod that has the name now, whatever uid the job names.
    """
    settings = configuration.controller
    if settings.migration is None or not snapshot.migration_jobs:
        return
    state = snapshot.build_state(configuration.policy.node_selector)
    state.keep_indexes((kind, None) for kind in INDEXES)
    view = ClusterView(state, lambda: now_s)
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    arbitrator = Arbitrator(
        arbitration_settings(settings.migration),
        view,
        lambda job: pods.get((job.pod.namespace, job.pod.name)),
        lambda pod: workload_size(pod, view),
    )
    moving = [
        profile
        for profile in configuration.policy.profiles
        if settings.evictions.evictor_of(profile.name) == "migration"
    ]
    for job in snapshot.migration_jobs:
        arbitrator.follow(job)
    for result in arbitrator.run_round():
        match result:
            case Passed(job, pod) if pod is not None:
                yield _decision("Evict", job, pod, _profile_of(job, moving))
            case Held(job, pod, rejection):
                yield _decision("Defer", job, pod, _profile_of(job, moving), rejection)
            case Forbidden(job, pod, rejection):
                yield _decision("Refuse", job, pod, _profile_of(job, moving), rejection)


def _profile_of(job: MigrationJob, moving: list[Profile]) -> str:
    """Name the profile that would have made a job: the one with its plugin, else the first."""
    enabling = (each for each in moving if job.trigger in (*each.deschedule, *each.balance))
    found = next(enabling, moving[0] if moving else None)
    return MIGRATION_PROFILE if found is None else found.name


def _decision(
    action: str, job: MigrationJob, pod: Pod, profile: str, rejection: Rejection | None = None
) -> PlannedDecision:
    why = f": {job.cause}" if job.cause else ""
    rejections: tuple[GateRejection, ...] = ()
    if rejection is not None:
        reason, message = rejection
        rejections = (GateRejection(reason.gate, reason.code, message),)
    return PlannedDecision(
        action=action,
        pod=pod_ref(pod),
        node=pod.node,
        owner=first_owner(pod),
        profile=profile,
        plugin=job.trigger or NO_PLUGIN,
        finding=f"PodMigrationJob {job.name} asks for it{why}",
        gate=rejections[0].gate if rejections else None,
        reason=rejections[0].reason if rejections else None,
        rejections=rejections,
    )
