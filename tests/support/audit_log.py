"""The API server's audit log read as evidence: who asked for what, and what was answered."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HTTP_FORBIDDEN = 403


@dataclass(frozen=True)
class AuditedRequest:
    """One finished (or, for a watch, begun) request."""

    user: str
    verb: str
    uri: str
    resource: str
    namespace: str
    name: str
    code: int
    message: str
    at: str
    body: dict[str, Any]  # the request as JSON, kept for evictions only

    @property
    def is_eviction(self) -> bool:
        """Whether this asked for a pod to be evicted (a dry run on the server's side counts)."""
        return self.verb == "create" and self.resource == "pods/eviction"

    @property
    def uid(self) -> str | None:
        """The uid an eviction insisted on; None when it would take any pod of that name."""
        options = self.body.get("deleteOptions") or {}
        uid = (options.get("preconditions") or {}).get("uid")
        return str(uid) if uid else None

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of an Eviction."""
        return (self.body.get("metadata") or {}).get("annotations") or {}


@dataclass(frozen=True)
class AuditLog:
    """A growing file of JSON lines; a line still being written is left for the next reading."""

    path: Path

    def size_bytes(self) -> int:
        """Return the present length: pass it as `since` to read only what comes later."""
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, user: str, since: int = 0) -> list[AuditedRequest]:
        """Return the user's requests in the order they were written."""
        return [each for each in self._read(since) if each.user == user]

    def evictions(self, user: str, since: int = 0) -> list[AuditedRequest]:
        """Return the user's eviction requests with their answers, oldest first."""
        return [each for each in self.requests(user, since) if each.is_eviction]

    def _read(self, since: int) -> Iterator[AuditedRequest]:
        with self.path.open("rb") as log:
            log.seek(since)
            for line in log:
                if line.endswith(b"\n"):
                    yield _parse(json.loads(line))


def _parse(event: dict[str, Any]) -> AuditedRequest:
    target, status = event.get("objectRef") or {}, event.get("responseStatus") or {}
    parts = (target.get("resource", ""), target.get("subresource"))
    return AuditedRequest(
        user=event["user"]["username"],
        verb=event["verb"],
        uri=event["requestURI"],
        resource="/".join(filter(None, parts)),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=status.get("code", 0),
        message=status.get("message", ""),
        at=event["stageTimestamp"],
        body=event.get("requestObject") or {},
    )
