"""Shows one stored object as each of its endpoints does."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from reactive_desched.sim.autoscaler_versions import from_first_version, to_first_version
from reactive_desched.sim.objects import Obj, merged, name_of
from reactive_desched.sim.resources import RESOURCES, Resource, served
from reactive_desched.sim.selector_text import selector_text
from reactive_desched.sim.status import StatusError, cause, invalid
from reactive_desched.sim.structural import StructuralSchema
from reactive_desched.sim.structural.json_paths import values_at, with_value
from reactive_desched.sim.syntax import qualified_name_faults

__all__ = ["SCALES", "VIEWS", "PrintedColumn", "View", "scale_of", "with_scale"]

SCALES = Resource(plural="scales", kind="Scale", group="autoscaling")
"""What a Scale is called in refusals."""


_REQUIRED = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_LONGEST = MappingProxyType({"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024})


class PrintedColumn(Struct, frozen=True):
    """A column that a definition has kubectl print for its kind."""

    name: str
    path: str
    type: str
    form: str = ""
    description: str = ""
    priority: int = 0


class View(Struct, frozen=True):
    """A kind as one group and version serves it."""

    resource: Resource
    outward: Callable[[Obj], Obj] | None = None
    """Turns a stored object into this view; None where it is stored as served."""
    inward: Callable[[Obj], Obj] | None = None
    """Turns what a client writes into the stored form."""
    schema: StructuralSchema | None = None
    """What a custom kind takes in this version."""
    printed: tuple[PrintedColumn, ...] = ()

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

    def check(self, old: Obj | None, new: Obj) -> None:
        """Raise 422 with every fault that the schema of a custom kind finds."""
        if self.schema is None:
            return
        served = {**new, "apiVersion": self.resource.api_version}
        faults = [*self.schema.faults(served, old), *_scale_faults(self.resource, new)]
        if faults:
            raise invalid(self.resource, name_of(new), faults)


def _scale_faults(kind: Resource, obj: Obj) -> Iterator[Obj]:
    """Yield what a custom resource may not say in the field that its Scale shows."""
    for wanted in values_at(obj, kind.scale.wanted) if "scale" in kind.subresources else ():
        if isinstance(wanted, int) and wanted < 0:
            text = f"Invalid value: {wanted}: should be a non-negative integer"
            yield cause("FieldValueInvalid", kind.scale.wanted, text)


def _to_regarding(event: Obj) -> Obj:
    """Show a stored core event in the form of events.k8s.io/v1."""
    return merged(
        {},
        apiVersion="events.k8s.io/v1",
        kind="Event",
        metadata=event["metadata"],
        series=event.get("series"),
        reportingController=event.get("reportingComponent") or None,
        reportingInstance=event.get("reportingInstance") or None,
        action=event.get("action"),
        reason=event.get("reason"),
        regarding=event.get("involvedObject"),
        related=event.get("related"),
        note=event.get("message"),
        type=event.get("type"),
        deprecatedCount=event.get("count"),
    ) | {
        "eventTime": event.get("eventTime"),
        "deprecatedSource": event.get("source") or {},
        "deprecatedFirstTimestamp": event.get("firstTimestamp"),
        "deprecatedLastTimestamp": event.get("lastTimestamp"),
    }


def _core_event(event: Obj) -> Obj:
    """Show a stored event as it is, with the fields that every one has."""
    fields = ("eventTime", "firstTimestamp", "lastTimestamp")
    always = {"source": {}, "reportingComponent": "", "reportingInstance": ""}
    return {**dict.fromkeys(fields), **always, **event}


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
    reporter = str(event.get("reportingController") or "")
    if reporter or not event.get("deprecatedSource"):
        faults += [
            cause(
                "FieldValueInvalid", "reportingController", f'Invalid value: "{reporter}": {says}'
            )
            for says in qualified_name_faults(reporter)
        ]
    faults += [
        cause(
            "FieldValueInvalid",
            "message" if field == "note" else field,
            f'Invalid value: "": can have at most {longest} characters',
        )
        for field, longest in _LONGEST.items()
        if len(str(event.get(field) or "").encode()) > longest
    ]
    if event.get("type") not in ("Normal", "Warning"):
        text = f'Invalid value: "{event.get("type") or ""}": has to be one of Normal, Warning'
        faults.append(cause("FieldValueInvalid", "type", text))
    if faults:
        raise invalid(RESOURCES["events"], name_of(event), faults)


def _views() -> dict[tuple[str, str, str], View]:
    found = {}
    for kind in served():
        view = View(kind)
        if kind.group == "events.k8s.io":
            view = View(kind, _to_regarding, _from_regarding)
        elif kind.plural == "events":
            view = View(kind, _core_event)
        if kind.api_version == "autoscaling/v1":
            view = View(kind, to_first_version, from_first_version)
        found[kind.group, kind.version, kind.plural] = view
    return found


VIEWS: Mapping[tuple[str, str, str], View] = MappingProxyType(_views())
"""Every view by group, version and plural."""


def scale_of(kind: Resource, obj: Obj) -> Obj:
    """Return the autoscaling/v1 Scale of an object."""
    meta, paths = obj["metadata"], kind.scale
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    wanted = values_at(obj, paths.wanted)
    if not wanted and kind.is_custom:
        text = f'the spec replicas field "{paths.wanted}" does not exist'
        said = {"causes": [{"message": text}]}
        raise StatusError(500, "InternalError", f"Internal error occurred: {text}", details=said)
    status: Obj = {"replicas": next(iter(values_at(obj, paths.there)), 0)}
    if not kind.is_custom:
        status["selector"] = selector_text(obj.get("spec", {}).get("selector"))
    elif paths.selector and (found := values_at(obj, paths.selector)):
        status["selector"] = found[0]
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {field: meta[field] for field in kept if field in meta},
        "spec": {"replicas": wanted[0]} if any(wanted) else {},
        "status": status,
    }


def with_scale(kind: Resource, obj: Obj, scale: Obj) -> Obj:
    """Return the object with the replicas, and the version, of an updated Scale."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not kind.is_custom:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        faults = [cause("FieldValueInvalid", "spec.replicas", text)]
        raise invalid(SCALES, name_of(obj), faults)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    scaled = with_value(obj, kind.scale.wanted, replicas)
    return {
        **scaled,
        "metadata": {**obj["metadata"], **({"resourceVersion": version} if version else {})},
    }
