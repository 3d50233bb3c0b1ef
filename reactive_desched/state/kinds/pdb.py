"""PodDisruptionBudgets: how many of the selected pods may be evicted now."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from reactive_desched.model.changes import PdbChanged
from reactive_desched.model.disruption import MAX_UNCONFIRMED, lets_unready_go
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import PodDisruptionBudget
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, WatchedKind, WireStruct

__all__ = ["PDB"]


class PdbMetadata(Metadata, frozen=True, gc=False):
    """A PDB's metadata; `generation` counts the changes of its spec."""

    generation: int = 0


class PdbSpec(WireStruct, frozen=True, gc=False):
    """A PDB's spec. No selector matches no pod; an empty one matches all pods of the namespace."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PdbStatus(WireStruct, frozen=True, gc=False):
    """A PDB's status: how many more of its pods may be evicted, and how its pods are."""

    disruptions_allowed: int = 0
    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, Raw] | None = None


class WirePdb(WireStruct, frozen=True, gc=False):
    """A PodDisruptionBudget's JSON."""

    metadata: PdbMetadata
    spec: PdbSpec = PdbSpec()
    status: PdbStatus = PdbStatus()


def _read(wire: WirePdb) -> PodDisruptionBudget:
    metadata, status = wire.metadata, wire.status
    return PodDisruptionBudget(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        selector=wire.spec.selector,
        disruptions_allowed=status.disruptions_allowed,
        is_processed=status.observed_generation >= metadata.generation,
        unready_may_go=lets_unready_go(
            wire.spec.unhealthy_pod_eviction_policy or "",
            status.current_healthy,
            status.desired_healthy,
        ),
        is_backlogged=len(status.disrupted_pods or ()) > MAX_UNCONFIRMED,
        never_allows=0 < status.expected_pods <= status.desired_healthy,
    )


PDB: Final = WatchedKind(
    kind="PodDisruptionBudget",
    resource="poddisruptionbudgets",
    api_version="policy/v1",
    namespaced=True,
    record=PodDisruptionBudget,
    wire=WirePdb,
    make_reader=lambda _: _read,
    make_change=lambda pdb: PdbChanged(pdb.namespace, pdb.name),
    # One that the API server refused to spend, and that looks as before, may allow more now.
    announces_every_version=True,
    read_for="the evictions that a budget allows",
)
