"""The API server of `crash_program`: its state is a file, and so outlives its clients."""

import os
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel

from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    Accepted,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    PdbRefused,
    PodFound,
    PodLookup,
    PodNotFound,
)

__all__ = ["FileApiServer", "evicted_uids"]

_EVICTED: Final = "evicted "


def evicted_uids(path: Path) -> list[str]:
    """Return the uids of the pods that left, as often as somebody had them leave."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(_EVICTED) for line in lines if line.startswith(_EVICTED)]


class FileApiServer(EvictionClient):
    """Pods are known by their uid, which is their name too; its ending says how they behave.

    A request has its effect before it is answered, or never.
    """

    effect_timeout_s = 0.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Answer; whoever is accepted leaves before the answer is given."""
        await anyio.lowlevel.checkpoint()
        if request.name.endswith("-guarded") and not self._is_refused(request.uid):
            self._write(f"refused {request.uid}")
            return PdbRefused("web needs 2 healthy pods, and has 2")
        self.accept(request.uid)
        await anyio.lowlevel.checkpoint()
        return EffectUnknown("cut off") if request.name.endswith("-unheard") else Accepted()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Tell what became of the pod of this name, whose uid is its name too."""
        del namespace
        await anyio.lowlevel.checkpoint()
        has_left = name in evicted_uids(self._path)
        if has_left and name.endswith("-gone"):
            return PodNotFound()
        mark = BY_EVICTION_API if has_left else ""
        return PodFound(name, terminating=has_left, disruption=mark)

    def accept(self, uid: str) -> None:
        """Let a pod leave; from here on it does, whoever hears of it."""
        self._write(f"{_EVICTED}{uid}")

    def _is_refused(self, uid: str) -> bool:
        return f"refused {uid}\n" in self._path.read_text(encoding="utf-8")

    def _write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())
