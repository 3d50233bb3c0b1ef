"""Defines an evictor: one way to ask a pod to leave, with all that belongs to it alone."""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from reactive_desched.model.outcomes import EvictionRequest, LeavesLater, Outcome, PodFound
from reactive_desched.model.rights import Right

__all__ = ["JSON", "ApiCall", "Evictor", "Requester", "pod_path", "segment"]

JSON: Final = "application/json"


class ApiCall(Struct, frozen=True, gc=False):
    """One request to the API server."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class Requester(Struct, frozen=True, gc=False):
    """The process that evicts, and the time in seconds since the epoch."""

    name: str
    now_s: float


def _shows_nothing(request: EvictionRequest, found: PodFound) -> Outcome | None:
    del request, found
    return None


class Evictor(Struct, frozen=True, kw_only=True):
    """One way to ask a pod to leave.

    `name` is what settings, labels of pods and jobs, and intents call it; `action` is what records
    do, `does` what they explain of it, and `choice` what the settings say behind its name.
    `call` returns the request. `accepted` is the response that a 2xx stands for, where that does
    not mean that the pod terminates. `found` returns what reading the pod back shows of a request
    whose response was lost, before all that holds of every evictor; None for nothing.

    `begins_within_s` is how long the program that lets a pod leave later has to begin: for so long
    the pod counts as leaving, and no second request is sent.
    `is_deletion` says that the request deletes the pod: no PodDisruptionBudget is asked, and no
    condition says that it was disrupted. `sets_disruption_target` says that the API server marks
    the pod as evicted through the Eviction API.
    `right` is what the request takes; with `role` it is granted by that folder of
    deploy/migration and not by default, for which `role_note` says more. `for_profiles` has
    `evictions.evictor` name it.
    """

    name: str
    action: str
    call: Callable[[EvictionRequest, Requester], ApiCall]
    right: Right
    does: str = ""
    choice: str = ""
    accepted: LeavesLater | None = None
    found: Callable[[EvictionRequest, PodFound], Outcome | None] = _shows_nothing
    begins_within_s: float = 600.0
    is_deletion: bool = False
    sets_disruption_target: bool = False
    role: str = ""
    role_note: str = ""
    for_profiles: bool = False


def pod_path(request: EvictionRequest) -> str:
    """Return the path of the pod that a request is about."""
    return f"/api/v1/namespaces/{segment(request.namespace)}/pods/{segment(request.name)}"


def segment(name: str) -> str:
    """Return a name as a segment of a path; every name that Kubernetes gives a pod is one."""
    return quote(name, safe="")
