"""Shows one stored object as each of its endpoints does."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from reactive_desched.sim.objects import Obj, merged, name_of
from reactive_desched.sim.resources import RESOURCES, Resource, served
from reactive_desched.sim.selector_text import selector_text
from reactive_desched.sim.status import cause, invalid

__all__ = ["VIEWS", "View", "scale_of", "with_scale"]

_REQUIRED = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_LONGEST = MappingProxyType({"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024})


class View(Struct, frozen=True):
    """A kind as one group and version serves it."""

    resource: Resource
    outward: Callable[[Obj], Obj] | None = None
    """Turns a stored object into this view; None where it is stored as served."""
    inward: Callable[[Obj], Obj] | None = None
    """Turns what a client writes into the stored form."""

    @property
    def storage(self) -> str:
        """The name of the table behind this view."""
        return self.resource.plural

    def shown(self, obj: Obj) -> Obj:
        """Return a stored object as this view serves it."""
        return obj if self.outward is None else self.outward(obj)

    def taken(self, obj: Obj) -> Obj:
        """Return what a client wrote as it is stored."""
        return obj if self.inward is None else self.inward(obj)


def _to_regarding(event: Obj) -> Obj:
    """Show a stored core event in the form of events.k8s.io/v1."""
    return merged(
        {},
        apiVersion="events.k8s.io/v1",
        kind="Event",
        metadata=event["metadata"],
        eventTime=event.get("eventTime"),
        series=event.get("series"),
        reportingController=event.get("reportingComponent"),
        reportingInstance=event.get("reportingInstance"),
        action=event.get("action"),
        reason=event.get("reason"),
        regarding=event.get("involvedObject"),
        related=event.get("related"),
        note=event.get("message"),
        type=event.get("type"),
        deprecatedSource=event.get("source"),
        deprecatedFirstTimestamp=event.get("firstTimestamp"),
        deprecatedLastTimestamp=event.get("lastTimestamp"),
        deprecatedCount=event.get("count"),
    )


def _from_regarding(event: Obj) -> Obj:
    """Store an events.k8s.io/v1 event as the core event that shows the same."""
    _check_event(event)
    return merged(
        {},
        metadata=event.get("metadata") or {},
        eventTime=event.get("eventTime"),
        series=event.get("series"),
        reportingComponent=event.get("reportingController"),
        reportingInstance=event.get("reportingInstance"),
        action=event.get("action"),
        reason=event.get("reason"),
        involvedObject=event.get("regarding") or {},
        related=event.get("related"),
        message=event.get("note"),
        type=event.get("type"),
        source=event.get("deprecatedSource"),
        firstTimestamp=event.get("deprecatedFirstTimestamp"),
        lastTimestamp=event.get("deprecatedLastTimestamp"),
        count=event.get("deprecatedCount"),
    )


def _check_event(event: Obj) -> None:
    faults = [
        cause("FieldValueRequired", field, "Required value")
        for field in _REQUIRED
        if not event.get(field) and not event.get("deprecatedSource")
    ]
    faults += [
        cause("FieldValueTooLong", field, f"Too long: may not be more than {longest} bytes")
        for field, longest in _LONGEST.items()
        if len(str(event.get(field) or "").encode()) > longest
    ]
    if event.get("type") not in ("Normal", "Warning"):
        text = f'Invalid value: "{event.get("type") or ""}": has to be one of Normal, Warning'
        faults.append(cause("FieldValueInvalid", "type", text))
    if faults:
        kind = next(kind for kind in served() if kind.group == "events.k8s.io")
        raise invalid(kind, name_of(event), faults)


def _views() -> dict[tuple[str, str, str], View]:
    found = {}
    for kind in served():
        view = View(kind)
        if kind.group == "events.k8s.io":
            view = View(kind, _to_regarding, _from_regarding)
        found[kind.group, kind.version, kind.plural] = view
    return found


VIEWS: Mapping[tuple[str, str, str], View] = MappingProxyType(_views())
"""Every view by group, version and plural."""


def scale_of(obj: Obj) -> Obj:
    """Return the autoscaling/v1 Scale of a workload."""
    meta, spec = obj["metadata"], obj.get("spec", {})
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {field: meta[field] for field in kept if field in meta},
        "spec": {"replicas": replicas} if (replicas := spec.get("replicas", 0)) else {},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0),
            "selector": selector_text(spec.get("selector")),
        },
    }


def with_scale(obj: Obj, scale: Obj) -> Obj:
    """Return the workload with the replicas, and the version, of an updated Scale."""
    kind = RESOURCES[_PLURALS[obj["kind"]]]
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(kind, name_of(obj), [cause("FieldValueInvalid", "spec.replicas", text)])
    version = (scale.get("metadata") or {}).get("resourceVersion")
    return {
        **obj,
        "metadata": {**obj["metadata"], **({"resourceVersion": version} if version else {})},
        "spec": {**obj.get("spec", {}), "replicas": replicas},
    }


_PLURALS = MappingProxyType({kind.kind: kind.plural for kind in RESOURCES.values()})
