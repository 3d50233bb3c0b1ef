"""The table of watched kinds, by API resource name: every `WatchedKind` in `state/kinds/`.

Informers, readiness, health checks, RBAC checks, `plan`, the bench and the documentation derive
from it. The names below exist because code asks for these resources one by one.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

from reactive_desched.state import kinds
from reactive_desched.state.kinds.job import JOB
from reactive_desched.state.kinds.kind import Purpose, WatchedKind
from reactive_desched.state.kinds.namespace import NAMESPACE
from reactive_desched.state.kinds.node import NODE
from reactive_desched.state.kinds.owners import REPLICA_SET
from reactive_desched.state.kinds.pdb import PDB
from reactive_desched.state.kinds.pod import POD
from reactive_desched.state.kinds.priority_class import PRIORITY_CLASS
from reactive_desched.state.kinds.pv import PV
from reactive_desched.state.kinds.pvc import PVC

__all__ = [
    "DEVICE_RESOURCES",
    "GANG_RESOURCES",
    "JOBS",
    "MIGRATION_RESOURCES",
    "NAMESPACES",
    "NODES",
    "OPTIONAL_RESOURCES",
    "OWNER_RESOURCES",
    "PDBS",
    "PLAN_RESOURCES",
    "PODS",
    "PRIORITY_CLASSES",
    "PVCS",
    "PVS",
    "REPLICA_SETS",
    "RESERVATION_RESOURCES",
    "RESOURCES",
    "RESOURCES_TO_SYNC",
    "STORAGE_RESOURCES",
    "USAGE_RESOURCES",
    "WATCHED_KINDS",
    "AnyWatchedKind",
    "resources_read_for",
]

AnyWatchedKind = WatchedKind[Any, Any]  # every kind has JSON and records of its own

PODS: Final = POD.resource
NODES: Final = NODE.resource
NAMESPACES: Final = NAMESPACE.resource
PRIORITY_CLASSES: Final = PRIORITY_CLASS.resource
PDBS: Final = PDB.resource
PVCS: Final = PVC.resource
PVS: Final = PV.resource
REPLICA_SETS: Final = REPLICA_SET.resource
JOBS: Final = JOB.resource


def _find_kinds() -> Iterator[AnyWatchedKind]:
    for module in iter_modules(kinds.__path__, f"{kinds.__name__}."):
        for value in vars(import_module(module.name)).values():
            for kind in value if isinstance(value, tuple) else (value,):
                if isinstance(kind, WatchedKind):
                    yield kind


WATCHED_KINDS: Final[Mapping[str, AnyWatchedKind]] = MappingProxyType(
    {kind.resource: kind for kind in sorted(_find_kinds(), key=lambda kind: kind.resource)}
)
RESOURCES: Final = tuple(
    name
    for name, kind in WATCHED_KINDS.items()
    if kind.purpose not in (Purpose.MIGRATION, Purpose.RESERVATIONS, Purpose.DEVICES, Purpose.GANGS)
)
"""The kinds that previews and sweeps know: all but those of jobs, which only `run` carries out, and
of devices and gangs, by which only it decides."""
OPTIONAL_RESOURCES: Final = frozenset(name for name in RESOURCES if WATCHED_KINDS[name].optional)


def resources_read_for(purpose: Purpose) -> frozenset[str]:
    """Return the resources that are read for this purpose alone."""
    return frozenset(name for name, kind in WATCHED_KINDS.items() if kind.purpose is purpose)


STORAGE_RESOURCES: Final = resources_read_for(Purpose.NODE_FIT)
OWNER_RESOURCES: Final = resources_read_for(Purpose.OWNERS)
USAGE_RESOURCES: Final = resources_read_for(Purpose.MEASURED_USE)
RESERVATION_RESOURCES: Final = resources_read_for(Purpose.RESERVATIONS)
DEVICE_RESOURCES: Final = resources_read_for(Purpose.DEVICES)
GANG_RESOURCES: Final = resources_read_for(Purpose.GANGS)
MIGRATION_RESOURCES: Final = resources_read_for(Purpose.MIGRATION)
PLAN_RESOURCES: Final = frozenset(RESOURCES) - USAGE_RESOURCES
"""What a file for `plan` should hold: all but measured use, which few clusters have."""

RESOURCES_TO_SYNC: Final = tuple(
    name for name, kind in WATCHED_KINDS.items() if kind.is_always_watched
)
