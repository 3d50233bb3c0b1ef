"""The limits and protections of arbitration, from koordinator's MigrationControllerArgs."""

from collections.abc import Mapping

from msgspec import Struct

from reactive_desched.model.eviction_options import POLICY_LABEL, EvictionOptions
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.migration_jobs import MigrationJob, SkipGate
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.migration import (
    DEFAULT_PER_NODE,
    MigrationJobSettings,
    MigrationSettings,
)

WorkloadLimit = int | str | None
"""So many pods, a share of the replicas such as "25%", or None for koordinator's formula."""


class MigratedNamespaces(Struct, frozen=True, gc=False):
    """The namespaces whose pods may be moved, or those whose pods must not."""

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()


class ArbitrationSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The arguments under koordinator's names and with its defaults.

    A limit on the jobs in progress that is None, 0 or negative is off. `priority_threshold` is the
    priority from which on pods stay; or it is the value of PriorityClass `priority_class`.
    `skip_eviction_gates` wins over every other argument.
    """

    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: int | None = None
    priority_class: str | None = None
    label_selector: LabelSelector | None = None
    namespaces: MigratedNamespaces = MigratedNamespaces()
    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = DEFAULT_PER_NODE
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: WorkloadLimit = None
    max_unavailable_per_workload: WorkloadLimit = None
    skip_check_expected_replicas: bool = False
    skip_eviction_gates: frozenset[SkipGate] = frozenset()

    def skips(self, gate: SkipGate) -> bool:
        """Say whether a check is left out."""
        return gate in self.skip_eviction_gates

    @property
    def job_limits(self) -> Mapping[SkipGate, int]:
        """The limits on jobs in progress that are on, by the gate that leaves each out."""
        written = {
            SkipGate.MIGRATING_GLOBALLY: self.max_migrating_globally,
            SkipGate.MIGRATING_PER_NODE: self.max_migrating_per_node,
            SkipGate.MIGRATING_PER_NAMESPACE: self.max_migrating_per_namespace,
        }
        return {
            gate: most
            for gate, most in written.items()
            if most is not None and most > 0 and not self.skips(gate)
        }


def arbitration_settings(settings: MigrationSettings) -> ArbitrationSettings:
    """Return what the settings of migration jobs say about arbitration."""
    namespaces = settings.namespaces
    return ArbitrationSettings(
        evict_failed_bare_pods=settings.evict_failed_bare_pods,
        evict_all_bare_pods=settings.evict_all_bare_pods,
        evict_local_storage_pods=settings.evict_local_storage_pods,
        evict_system_critical_pods=settings.evict_system_critical_pods,
        ignore_pvc_pods=settings.ignore_pvc_pods,
        priority_threshold=settings.priority_threshold.value,
        priority_class=settings.priority_threshold.name or None,
        label_selector=settings.label_selector,
        namespaces=MigratedNamespaces(frozenset(namespaces.include), frozenset(namespaces.exclude)),
        max_migrating_globally=settings.max_migrating_globally,
        max_migrating_per_node=settings.max_migrating_per_node,
        max_migrating_per_namespace=settings.max_migrating_per_namespace,
        max_migrating_per_workload=settings.max_migrating_per_workload,
        max_unavailable_per_workload=settings.max_unavailable_per_workload,
        skip_check_expected_replicas=settings.skip_check_expected_replicas,
        skip_eviction_gates=frozenset(settings.skip_eviction_gates),
    )


def eviction_options(
    job: MigrationJob, pod: Pod, settings: MigrationJobSettings
) -> EvictionOptions:
    """Return how a job's pod is asked to leave, as koordinator chooses it.

    The label of the pod names the policy, else that of the job, else the settings; a word that
    names none counts as none. The options are the job's, else those of the settings.
    """
    named = pod.labels.get(POLICY_LABEL) or job.policy
    evictor = named if named in EVICTORS else settings.eviction_policy
    defaults = settings.default_delete_options
    options = job.delete_options or (None if defaults is None else defaults.options)
    return EvictionOptions(evictor, options, job.trigger, job.cause or job.trigger)
