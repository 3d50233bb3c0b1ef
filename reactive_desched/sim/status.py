"""Rejects requests as the API server does: in the codes, reasons and words of clients."""

from collections.abc import Sequence
from typing import Any

from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource

__all__ = [
    "Expired",
    "StatusError",
    "already_exists",
    "bad_request",
    "cause",
    "conflict",
    "forbidden",
    "invalid",
    "no_such_resource",
    "not_found",
    "too_large_version",
]


class StatusError(ReactiveDeschedError):
    """A refusal, carrying everything the `Status` body and its headers need."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self._shows_details = details is not None  # also empty ones
        self.retry_after = retry_after

    def body(self) -> Obj:
        """Return the `Status` object that goes over the wire."""
        details = dict(self.details)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        status: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if details or self._shows_details:
            status["details"] = details
        return {**status, "code": self.code}


class Expired(StatusError):  # noqa: N818 -- the reason's name on the wire
    """The resource version asked for is older than the history that is kept."""

    def __init__(self, message: str, token: str = "") -> None:
        super().__init__(410, "Expired", message)
        self.token = token

    def body(self) -> Obj:
        """Return the `Status`, with the token that goes on from there at the latest state."""
        body = super().body()
        return {**body, "metadata": {"continue": self.token}} if self.token else body


def _details(resource: Resource, name: str) -> Obj:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}


def not_found(resource: Resource, name: str) -> StatusError:
    """Say that nothing has that name."""
    message = f'{resource.qualified} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(resource, name))


def no_such_resource(group: str, plural: str) -> StatusError:
    """Say that the URL names nothing that is served, with the details that kubectl relies on."""
    text = "the server could not find the requested resource"
    details = {"group": group, "kind": plural} if group else {"kind": plural}
    return StatusError(404, "NotFound", text, details=details)


def already_exists(resource: Resource, name: str, *, is_leaving: bool = False) -> StatusError:
    """Say that something has that name already, and maybe that it is being deleted."""
    message = f'{resource.qualified} "{name}" already exists'
    if is_leaving:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, named: str = "") -> StatusError:
    """Say that another write was first, or that a precondition does not hold.

    `named` stands for the resource where the real server calls it something else.
    """
    details = _details(resource, name) | ({"kind": named} if named else {})
    said = ".".join(filter(None, (named or resource.plural, resource.group)))
    message = f'Operation cannot be fulfilled on {said} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=details)


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[Obj] = ()) -> StatusError:
    """Say that policy forbids it."""
    details = _details(resource, name) | ({"causes": list(causes)} if causes else {})
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=details)


def invalid(
    resource: Resource, name: str, causes: Sequence[Obj], *, named: str = ""
) -> StatusError:
    """Say that the object is not valid; each cause names its field.

    `named` stands for the kind where the real server calls it something else.
    """
    texts = list(dict.fromkeys(f"{c['field']}: {c['message']}" for c in causes))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    group = {"group": resource.group} if resource.group else {}
    kind = named or resource.kind
    details = {**({"name": name} if name else {}), **group, "kind": kind, "causes": list(causes)}
    qualified = f"{kind}.{resource.group}" if resource.group else kind
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {said}', details=details)


def bad_request(message: str) -> StatusError:
    """Say that the request makes no sense."""
    return StatusError(400, "BadRequest", message)


def cause(reason: str, field: str, message: str) -> Obj:
    """Return one entry of `details.causes`."""
    return {"reason": reason, "message": message, "field": field}


def too_large_version(asked: int, current: int) -> StatusError:
    """Say that the client has seen a future this server has not reached."""
    what = "Too large resource version"
    causes: list[Any] = [{"reason": "ResourceVersionTooLarge", "message": what}]
    return StatusError(
        504,
        "Timeout",
        f"Timeout: {what}: {asked}, current: {current}",
        details={"causes": causes},
        retry_after=1,
    )
