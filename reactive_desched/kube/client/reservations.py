"""Reservations of koordinator's API: places that its scheduler keeps for the pods of jobs.

A Reservation has the template of the job's pod, not on the pod's node, and the pod's controller as
its owner, so that koordinator's scheduler gives the place to the replacement. Its own owner is the
job, with which the garbage collector deletes it.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from reactive_desched.kube.client.placeholders import away_from, within
from reactive_desched.kube.client.responses import ApiResponse, accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.migration.actions import CreateReservation
from reactive_desched.model.migration_jobs import API_VERSION, KIND
from reactive_desched.model.reservations import (
    CREATED_BY,
    CREATOR,
    ORDER_LABEL,
    RESERVATION_API,
    RESERVATION_KIND,
    RESERVATIONS,
    Reservation,
)
from reactive_desched.primitives.durations import write_duration

PATH: Final = f"/apis/{RESERVATION_API}/{RESERVATIONS}"
_TRANSIENT: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
_JsonObject = dict[str, Any]  # any JSON below the named members


async def reserve(
    session: Transport,
    step: CreateReservation,
    template: _JsonObject,
    pod: _JsonObject,
    now_ms: int,
) -> _JsonObject:
    """Make the Reservation of a job, or adopt the one that there is; return a reference to it.

    `template` is that of the job's `reservationOptions`, empty for none, `pod` the pod as the API
    server has it, `now_ms` milliseconds since the epoch. Raises ClusterError.
    """
    body = reservation(step, template, pod, now_ms)
    name = body["metadata"]["name"]
    made = await session.request("POST", PATH, body=msgspec.json.encode(body))
    if made.status == HTTPStatus.CONFLICT:  # an earlier request has made it
        made = await session.request("GET", _path(name))
    stored = msgspec.json.decode(_body(made, name), type=_JsonObject)
    return {
        "apiVersion": RESERVATION_API,
        "kind": RESERVATION_KIND,
        "name": name,
        "uid": stored["metadata"]["uid"],
    }


async def set_order(session: Transport, kept: Reservation, now_ms: int) -> None:
    """Write koordinator's order label on a Reservation that has none; raises ClusterError."""
    patch = {"metadata": {"uid": kept.uid, "labels": {ORDER_LABEL: str(now_ms)}}}
    reply = await session.request(
        "PATCH", _path(kept.name), body=msgspec.json.encode(patch), content_type=MERGE_PATCH
    )
    _body_unless_gone(reply, kept.name)


async def give_up(session: Transport, kept: Reservation) -> None:
    """Delete a Reservation; raises ClusterError. One that is gone already is no error."""
    body = msgspec.json.encode({"preconditions": {"uid": kept.uid}})
    reply = await session.request("DELETE", _path(kept.name), body=body)
    _body_unless_gone(reply, kept.name)


def reservation(
    step: CreateReservation, template: _JsonObject, pod: _JsonObject, now_ms: int
) -> _JsonObject:
    """Return the Reservation of a job, as koordinator's controller makes it."""
    job = step.job
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {**(meta.get("labels") or {}), CREATED_BY: CREATOR, ORDER_LABEL: str(now_ms)}
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": job.name, "uid": job.uid}
    lasts = {key: spec[key] for key in ("ttl", "expires") if spec.get(key)}
    if not lasts and job.ttl_s > 0:
        lasts = {"ttl": write_duration(job.ttl_s)}
    return {
        "apiVersion": RESERVATION_API,
        "kind": RESERVATION_KIND,
        "metadata": {
            **{key: meta[key] for key in ("annotations",) if meta.get(key)},
            "name": meta.get("name") or job.uid,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            **spec,
            "template": _pod_template(
                spec.get("template") or _template_of(pod, step), pod, step.avoided
            ),
            "owners": spec.get("owners") or _owners(pod),
            "allocateOnce": True,
            **lasts,
        },
    }


def _template_of(pod: _JsonObject, step: CreateReservation) -> _JsonObject:
    """Return a pod's metadata and spec without the fields and claims that only that pod may have.

    koordinator's scheduler spreads by the controller among the owners, as by the labels. Claims of
    ephemeral volumes are made for each pod, and for a Reservation none is.
    """
    kept = ("namespace", "labels", "annotations", "ownerReferences")
    meta = {key: pod["metadata"][key] for key in kept if pod["metadata"].get(key)}
    spec = dict(pod["spec"])
    if volumes := spec.pop("volumes", ()):
        spec["volumes"] = [each for each in volumes if _is_shared(each, step.without)]
    if where := within(step.selectors, spec.get("affinity") or {}):
        spec["affinity"] = where
    return {"metadata": meta, "spec": spec}


def _is_shared(volume: Mapping[str, Any], exclusive: tuple[str, ...]) -> bool:
    """Say whether a Reservation can have a volume of the pod while the pod is there."""
    claim = volume.get("persistentVolumeClaim") or {}
    return "ephemeral" not in volume and claim.get("claimName") not in exclusive


def _pod_template(template: _JsonObject, pod: _JsonObject, avoided: Iterable[str]) -> _JsonObject:
    """Return a template that fits no node but another than the pod's and those to avoid."""
    spec = {key: part for key, part in (template.get("spec") or {}).items() if key != "nodeName"}
    node = pod["spec"].get("nodeName", "")
    affinity = away_from((node, *avoided), spec.get("affinity") or {})
    return {**template, "spec": {**spec, **({"affinity": affinity} if affinity else {})}}


def _owners(pod: _JsonObject) -> list[_JsonObject]:
    """Return for which pods a place is kept: a pod that waits for a node, else its successors."""
    meta, status = pod["metadata"], pod.get("status") or {}
    if status.get("phase") == "Pending" and _is_unscheduled(status):
        names = {key: meta[key] for key in ("namespace", "name", "uid")}
        return [{"object": {"kind": "Pod", **names}}]
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return [{"controller": {**owner, "namespace": meta["namespace"]}}]
    return []


def _is_unscheduled(status: Mapping[str, Any]) -> bool:
    return any(
        each.get("type") == "PodScheduled" and each.get("status") == "False"
        for each in status.get("conditions") or ()
    )


def _body_unless_gone(reply: ApiResponse, name: str) -> None:
    if not reply.is_overtaken:
        _body(reply, name)


def _body(reply: ApiResponse, name: str) -> bytes:
    return accepted_body(reply, f"Reservation of {name}", _TRANSIENT)


def _path(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"
