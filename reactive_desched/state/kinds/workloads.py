"""Deployments, StatefulSets and DaemonSets: the number of pods they want, and their rollouts."""

from collections.abc import Callable
from typing import Final

from reactive_desched.model.changes import WorkloadChanged
from reactive_desched.model.objects import DaemonSet, Deployment, StatefulSet, Workload
from reactive_desched.state.kinds.interning import InternTables, parse_resource_version
from reactive_desched.state.kinds.kind import (
    NO_OPT_OUT,
    BoundedName,
    Identifier,
    OptOutAnnotation,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)
from reactive_desched.text.counts import agree, format_count

__all__ = ["DAEMON_SET", "DEPLOYMENT", "STATEFUL_SET", "UNOBSERVED"]

UNOBSERVED: Final = "its latest change is not observed yet"
"""The rollout of a workload whose change may be one, or another size."""

_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
_ON_DELETE: Final = "OnDelete"
_PARALLEL: Final = "Parallel"


class WorkloadMetadata(WireStruct, frozen=True, gc=False):
    """A workload's metadata."""

    name: Identifier
    uid: Identifier
    namespace: BoundedName = ""
    resource_version: str = ""
    generation: int = 0
    annotations: OptOutAnnotation = NO_OPT_OUT
    deletion_timestamp: Timestamp | None = None


class RollingUpdate(WireStruct, frozen=True, gc=False):
    """Details of a rolling update."""

    partition: int | None = None


class UpdateStrategy(WireStruct, frozen=True, gc=False):
    """The way in which a StatefulSet or DaemonSet replaces its pods."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(WireStruct, frozen=True, gc=False):
    """The spec of a workload; one pod is the API server's default where it has a number."""

    replicas: int | None = None
    paused: bool = False
    update_strategy: UpdateStrategy = UpdateStrategy()
    pod_management_policy: str = ""


class WorkloadCondition(WireStruct, frozen=True, gc=False):
    """A condition of a Deployment."""

    type: str = ""
    reason: str = ""


class WorkloadStatus(WireStruct, frozen=True, gc=False):
    """The status of a workload."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[WorkloadCondition, ...] = ()
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0


class WireWorkload(WireStruct, frozen=True, gc=False):
    """The JSON of a Deployment, StatefulSet or DaemonSet."""

    metadata: WorkloadMetadata
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def replicas(self) -> int:
        """Return how many pods it wants."""
        return 1 if self.spec.replicas is None else self.spec.replicas


def _deployment_rollout(wire: WireWorkload) -> str:
    """Say what of a rollout is under way, as `kubectl rollout status` does.

    Pods that are missing or not Ready yet are left to the pods themselves, and a rollout that
    exceeded its deadline is over: nothing can be waited for. One that a person paused replaces no
    pod either: pods of both templates stay, and are made again, for as long as they like.
    """
    status = wire.status
    if status.observed_generation < wire.metadata.generation:
        return UNOBSERVED
    if wire.spec.paused or any(each.reason == _DEADLINE_EXCEEDED for each in status.conditions):
        return ""
    old = status.replicas - status.updated_replicas
    is_left = f"of an older template {agree(old, 'is', 'are')} left"
    return f"{format_count(old, 'pod')} {is_left}" if old > 0 else ""


def _stateful_set_rollout(wire: WireWorkload) -> str:
    """Say what of a rollout is under way, as `kubectl rollout status` does."""
    status, strategy = wire.status, wire.spec.update_strategy
    if status.observed_generation < wire.metadata.generation:
        return UNOBSERVED
    if strategy.type == _ON_DELETE:
        return ""
    rolling = strategy.rolling_update
    if rolling is not None and rolling.partition:
        wanted = max(0, wire.replicas - rolling.partition)
        if status.updated_replicas < wanted:
            return f"{status.updated_replicas} of {wanted} pods have the new revision"
    elif status.update_revision and status.update_revision != status.current_revision:
        return "its pods have not all the new revision"
    return ""


def _daemon_set_rollout(wire: WireWorkload) -> str:
    """Say what of a rollout is under way, as `kubectl rollout status` does."""
    status = wire.status
    if status.observed_generation < wire.metadata.generation:
        return UNOBSERVED
    wanted, updated = status.desired_number_scheduled, status.updated_number_scheduled
    if wire.spec.update_strategy.type == _ON_DELETE or updated >= wanted:
        return ""
    return f"{updated} of {wanted} pods have the new template"


_Fields = tuple[str, str, str, int, int, str, str | None, str | None, bool]
"""The fields of a Workload, in their order."""


def _fields(wire: WireWorkload, replicas: int, rollout: str, tables: InternTables) -> _Fields:
    metadata = wire.metadata
    return (
        tables.texts.intern(metadata.namespace),
        metadata.name,
        metadata.uid,
        parse_resource_version(metadata.resource_version),
        replicas,
        rollout,
        metadata.annotations.do_not_evict,
        metadata.annotations.answer,
        metadata.deletion_timestamp is not None,
    )


def _deployment_reader(tables: InternTables) -> Callable[[WireWorkload], Deployment]:
    return lambda wire: Deployment(*_fields(wire, wire.replicas, _deployment_rollout(wire), tables))


def _stateful_set_reader(tables: InternTables) -> Callable[[WireWorkload], StatefulSet]:
    return lambda wire: StatefulSet(
        *_fields(wire, wire.replicas, _stateful_set_rollout(wire), tables),
        is_parallel=wire.spec.pod_management_policy == _PARALLEL,
    )


def _daemon_set_reader(tables: InternTables) -> Callable[[WireWorkload], DaemonSet]:
    return lambda wire: DaemonSet(
        *_fields(wire, wire.status.desired_number_scheduled, _daemon_set_rollout(wire), tables)
    )


def _changed(workload: Workload) -> WorkloadChanged:
    return WorkloadChanged(workload.uid)


_NO_ROLLOUT: Final = (
    "guards do not see rollouts, sizes and opt-outs of {}: they go by the pods that are there"
)

DEPLOYMENT: Final = WatchedKind(
    kind="Deployment",
    resource="deployments",
    api_version="apps/v1",
    namespaced=True,
    record=Deployment,
    wire=WireWorkload,
    make_reader=_deployment_reader,
    make_change=_changed,
    purpose=Purpose.OWNERS,
    read_for="sizes, rollouts and opt-outs of Deployments",
    if_forbidden=_NO_ROLLOUT.format("Deployments"),
)
STATEFUL_SET: Final = WatchedKind(
    kind="StatefulSet",
    resource="statefulsets",
    api_version="apps/v1",
    namespaced=True,
    record=StatefulSet,
    wire=WireWorkload,
    make_reader=_stateful_set_reader,
    make_change=_changed,
    purpose=Purpose.OWNERS,
    read_for="sizes, rollouts and opt-outs of StatefulSets",
    if_forbidden=_NO_ROLLOUT.format("StatefulSets"),
)
DAEMON_SET: Final = WatchedKind(
    kind="DaemonSet",
    resource="daemonsets",
    api_version="apps/v1",
    namespaced=True,
    record=DaemonSet,
    wire=WireWorkload,
    make_reader=_daemon_set_reader,
    make_change=_changed,
    purpose=Purpose.OWNERS,
    read_for="rollouts and opt-outs of DaemonSets",
    if_forbidden=(
        "opt-outs of DaemonSets are not seen, and why their pods were deleted is not known"
    ),
)
