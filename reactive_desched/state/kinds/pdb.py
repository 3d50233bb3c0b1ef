"""PodDisruptionBudgets: how many of the selected pods may be evicted now."""

from typing import Final

from reactive_desched.model.changes import PdbChanged
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import PodDisruptionBudget
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, WatchedKind, WireStruct

__all__ = ["PDB"]


class PdbSpec(WireStruct, frozen=True, gc=False):
    """A PDB's spec. No selector matches no pod; an empty one matches all pods of the namespace."""

    selector: LabelSelector | None = None


class PdbStatus(WireStruct, frozen=True, gc=False):
    """A PDB's status: how many more of its pods may be evicted."""

    disruptions_allowed: int = 0


class WirePdb(WireStruct, frozen=True, gc=False):
    """A PodDisruptionBudget's JSON."""

    metadata: Metadata
    spec: PdbSpec = PdbSpec()
    status: PdbStatus = PdbStatus()


def _read(wire: WirePdb) -> PodDisruptionBudget:
    metadata = wire.metadata
    return PodDisruptionBudget(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        selector=wire.spec.selector,
        disruptions_allowed=wire.status.disruptions_allowed,
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
    read_for="the evictions that a budget allows",
)
