"""Requests of migration jobs to the simulated cluster of a story, some of which go wrong."""

from collections.abc import Callable
from http import HTTPStatus
from random import Random
from typing import Any, Final
from urllib.parse import unquote

import anyio
import msgspec

from reactive_desched.errors import Unreachable
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.patches.merge import apply_merge_patch
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store

TIE_BREAK_S: Final = 0.001
"""No answer comes at the very instant of another event: which is first would be drawn."""


class StoreRequests:
    """Carries out requests on a store; of a hundred some are refused or lose their answer.

    While `is_down` says so nothing answers. `rng` draws what goes wrong, and how long each takes.
    """

    def __init__(self, store: Store, rng: Random, is_down: Callable[[], bool]) -> None:
        self._store = store
        self._rng = rng
        self._is_down = is_down

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
    ) -> ApiResponse:
        """Carry out one request."""
        del content_type
        await anyio.sleep(self._rng.choice([0.003, 0.02, 0.3]) + self._rng.random() * TIE_BREAK_S)
        fault = self._rng.random()
        if self._is_down():
            raise Unreachable(path, "connection refused", sent=False)
        if fault < 0.05:
            return ApiResponse(HTTPStatus.SERVICE_UNAVAILABLE, {}, b"busy")
        try:
            found = self._carry_out(method, path, msgspec.json.decode(body) if body else {})
        except StatusError as error:
            return ApiResponse(error.code, {}, msgspec.json.encode(error.body()))
        await anyio.sleep(0.003 + self._rng.random() * TIE_BREAK_S)
        if fault > 0.95:
            raise Unreachable(path, "connection reset", sent=True)
        return ApiResponse(HTTPStatus.OK, {}, msgspec.json.encode(found))

    def _carry_out(self, method: str, path: str, body: Any) -> Obj:  # a JSON object
        resource, namespace, name, subresource = _parts_of(path)
        store = self._store
        match method:
            case "POST":
                return store.create(resource, body)
            case "DELETE":
                uid = body.get("preconditions", {}).get("uid")
                options = DeleteOptions(body.get("gracePeriodSeconds"), uid)
                return store.delete(resource, namespace, name, options)
            case "PATCH":
                found = self._existing(resource, namespace, name)
                patched = apply_merge_patch(found, body)
                return store.update(resource, patched, subresource=subresource)
            case _:
                return self._existing(resource, namespace, name)

    def _existing(self, resource: str, namespace: str, name: str) -> Obj:
        if (found := self._store.get(resource, namespace, name)) is None:
            raise StatusError(HTTPStatus.NOT_FOUND, "NotFound", f"{resource} {name} not found")
        return found


def _parts_of(path: str) -> tuple[str, str, str, str]:
    """Return the resource, the namespace, the name and the subresource of a path."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces":
        _, namespace, *parts = parts
    resource, name, subresource, *_ = [*parts, "", ""]
    return resource, namespace, name, subresource
