"""Lets each endpoint change its part of an object, and adds what the server changes."""

from reactive_desched.sim import metadata, validation
from reactive_desched.sim.addresses import keep_addresses
from reactive_desched.sim.defaults import TEMPLATE_GENERATION, apply_defaults
from reactive_desched.sim.objects import Obj, clone, merged
from reactive_desched.sim.pod_defaults import fill_tolerations
from reactive_desched.sim.pod_updates import CONTAINER_GROUPS
from reactive_desched.sim.resources import Resource

__all__ = ["next_form"]


def next_form(kind: Resource, current: Obj, incoming: Obj, subresource: str) -> Obj:
    """Return what the object becomes when `incoming` is written through an endpoint.

    `incoming` belongs to the caller no more: it may be changed here.
    """
    if subresource == "status":
        meta = metadata.carried_over(current, incoming)
        if kind.plural == "deployments":
            meta = merged(meta, labels=current["metadata"].get("labels"))
        new = {**_with(current, "status", incoming), "metadata": meta}
        if kind.plural == "nodes":
            apply_defaults(kind, new)
        return new
    if subresource == "finalize":
        return _with(current, "spec", incoming)
    new = {**incoming, "metadata": metadata.carried_over(current, incoming)}
    if subresource == "binding":
        return new
    _keep(new, current, "status", when=kind.has_status)
    if subresource == "resize":
        new = {**current, "spec": _resized(current["spec"], incoming.get("spec", {}))}
    apply_defaults(kind, new)
    if subresource == "resize":
        validation.check_resize(kind, current, new)
    else:
        _keep_admitted(kind, current, new)
        validation.check_update(kind, current, new)
    if kind.plural == "daemonsets":
        new = _template_counted(current, new)
    return _counted(kind, current, new)


def _template_counted(current: Obj, new: Obj) -> Obj:
    """Return a DaemonSet whose annotation counts the templates that it had."""
    before = (current["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    is_other = new["spec"].get("template") != current["spec"].get("template")
    number = str(int(before) + 1) if is_other and before.isdecimal() else before
    annotations = {**(new["metadata"].get("annotations") or {}), TEMPLATE_GENERATION: number}
    return {**new, "metadata": {**new["metadata"], "annotations": annotations}}


def _with(current: Obj, field: str, incoming: Obj) -> Obj:
    return {**current, field: incoming.get(field) or {}}


def _keep(new: Obj, current: Obj, field: str, *, when: bool) -> None:
    if when:
        new.pop(field, None)
        if field in current:
            new[field] = current[field]


def _keep_admitted(kind: Resource, current: Obj, new: Obj) -> None:
    """Bring back what was added to a pod or a Service when a client left it out of its update."""
    if kind.plural == "services":
        keep_addresses(current, new)
    if kind.plural != "pods":
        return
    spec = new["spec"]
    fill_tolerations(spec)
    for field in ("priority", "preemptionPolicy", "serviceAccount", "serviceAccountName"):
        if field not in spec and field in current["spec"]:
            spec[field] = current["spec"][field]


def _resized(spec: Obj, wished: Obj) -> Obj:
    new: Obj = clone(spec)
    for group in CONTAINER_GROUPS:
        wanted = {each.get("name"): each for each in wished.get(group) or ()}
        for container in new.get(group) or ():
            if container["name"] in wanted:
                container["resources"] = wanted[container["name"]].get("resources", {})
    return new


def _counted(kind: Resource, current: Obj, new: Obj) -> Obj:
    if not kind.has_generation or _content(new) == _content(current):
        return new
    generation = current["metadata"].get("generation", 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def _content(obj: Obj) -> Obj:
    """Return what generation counts: all that a plain update can change, but metadata.

    Of a Deployment its annotations count, too.
    """
    content = {key: value for key, value in obj.items() if key != "metadata"}
    if obj["kind"] == "Deployment":
        content["annotations"] = obj["metadata"].get("annotations") or {}
    return content
