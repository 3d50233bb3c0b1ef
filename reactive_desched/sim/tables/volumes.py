"""Tables of the kinds that have to do with storage."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.tables.columns import AGE, NAME, Column, Table, age_of, number, text, wide

__all__ = ["VOLUME_TABLES"]

_UNSET: Final = "<unset>"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_MODES: Mapping[str, str] = MappingProxyType(
    {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
)


def _modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Obj) -> str:
    ending = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if ending else str(obj.get("status", {}).get("phase", ""))


def _claim(claim: Obj, now: float) -> list[object]:
    spec, status = claim.get("spec", {}), claim.get("status", {})
    capacity = modes = ""
    if volume := spec.get("volumeName", ""):
        capacity = (status.get("capacity") or {}).get("storage", "0")
        modes = _modes(status.get("accessModes"))
    return [
        name_of(claim),
        _phase(claim),
        volume,
        capacity,
        modes,
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", _UNSET),
        age_of(claim, now),
        spec.get("volumeMode", _UNSET),
    ]


def _volume(volume: Obj, now: float) -> list[object]:
    spec, claim = volume.get("spec", {}), volume.get("spec", {}).get("claimRef") or {}
    return [
        name_of(volume),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", _UNSET),
        volume.get("status", {}).get("reason", ""),
        age_of(volume, now),
        spec.get("volumeMode", _UNSET),
    ]


def _storage_class(obj: Obj, now: float) -> list[object]:
    marked = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return [
        f"{name_of(obj)} (default)" if marked else name_of(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _csi_node(node: Obj, now: float) -> list[object]:
    return [name_of(node), len(node.get("spec", {}).get("drivers") or ()), age_of(node, now)]


def _attachment(obj: Obj, now: float) -> list[object]:
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool(obj.get("status", {}).get("attached")),
        age_of(obj, now),
    ]


_DRIVER_FLAGS = ("AttachRequired", "PodInfoOnMount", "StorageCapacity")


def _csi_driver(obj: Obj, now: float) -> list[object]:
    spec = obj.get("spec", {})
    audiences = [str(each.get("audience", "")) for each in spec.get("tokenRequests") or ()]
    return [
        name_of(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(audiences) or "<unset>",
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ("Persistent",)),
        age_of(obj, now),
    ]


VOLUME_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "persistentvolumeclaims": Table(
            (
                NAME,
                *text("Status", "Volume", "Capacity", "Access Modes", "StorageClass"),
                *text("VolumeAttributesClass"),
                AGE,
                *wide("VolumeMode"),
            ),
            _claim,
        ),
        "persistentvolumes": Table(
            (
                NAME,
                *text("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim"),
                *text("StorageClass", "VolumeAttributesClass", "Reason"),
                AGE,
                *wide("VolumeMode"),
            ),
            _volume,
        ),
        "storageclasses": Table(
            (
                NAME,
                *text("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"),
                AGE,
            ),
            _storage_class,
        ),
        "csidrivers": Table(
            (
                NAME,
                *(Column(each, "boolean") for each in _DRIVER_FLAGS),
                *text("TokenRequests"),
                Column("RequiresRepublish", "boolean"),
                *text("Modes"),
                AGE,
            ),
            _csi_driver,
        ),
        "csinodes": Table((NAME, *number("Drivers"), AGE), _csi_node),
        "volumeattachments": Table(
            (
                NAME,
                Column("Attacher", form="name"),
                *text("PV", "Node"),
                Column("Attached", "boolean"),
                AGE,
            ),
            _attachment,
        ),
    }
)
