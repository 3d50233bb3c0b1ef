"""Faults that tests order: which requests the API server answers wrongly, and how often."""

import re
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Struct

from reactive_desched.sim.status import StatusError

__all__ = [
    "Fault",
    "FaultPlan",
    "delayed",
    "refused",
    "reset",
    "server_error",
    "throttled",
    "unavailable",
]

_KEPT_REQUESTS = 1000


class Fault(Struct, frozen=True, kw_only=True):
    """One fault of one request."""

    delay_s: float = 0.0
    reset: bool = False
    """Cut the connection without an answer."""
    code: int = 0
    """Answer with this instead of doing anything; 0 lets the request through after the delay."""
    body: bytes = b""
    content_type: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


def throttled(retry_after: int = 1) -> Fault:
    """Answer as an overloaded server does: 429, plain text, no `Status`."""
    return Fault(
        code=429,
        body=b"Too many requests, please try again later.",
        headers=(
            ("Retry-After", str(retry_after)),
            ("X-Kubernetes-PF-FlowSchema-UID", "00000000-0000-4000-8000-000000000001"),
            ("X-Kubernetes-PF-PriorityLevel-UID", "00000000-0000-4000-8000-000000000002"),
        ),
    )


def refused(error: StatusError) -> Fault:
    """Answer with a `Status`."""
    retry = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Fault(
        code=error.code,
        body=msgspec.json.encode(error.body()),
        content_type="application/json",
        headers=retry,
    )


def server_error(message: str = "etcdserver: request timed out") -> Fault:
    """Answer 500 InternalError."""
    return refused(StatusError(500, "InternalError", f"Internal error occurred: {message}"))


def unavailable() -> Fault:
    """Answer 503 as a proxy in front of a dead server does: plain text."""
    return Fault(code=503, body=b"service unavailable")


def reset() -> Fault:
    """Cut the connection without an answer."""
    return Fault(reset=True)


def delayed(seconds: float) -> Fault:
    """Let the request wait, then treat it normally."""
    return Fault(delay_s=seconds)


class _Rule(Struct):
    fault: Fault
    method: str
    target: re.Pattern[str]
    left: int


class FaultPlan:
    """Makes requests to come go wrong, and keeps the requests that came.

    Remembers the latest 1,000 requests; rules live until they are used up or cleared.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._cutters: list[Callable[[], None]] = []
        self._compactors: list[Callable[[], None]] = []
        self.requests: deque[str] = deque(maxlen=_KEPT_REQUESTS)

    def add(self, fault: Fault, *, target: str = "", method: str = "", times: int = 1) -> None:
        """Let the next `times` requests whose path and query match `target` go wrong.

        `target` is a regular expression searched in `/path?query`; rules are asked in the order
        they were added, and the first that applies is used.
        """
        self._rules.append(_Rule(fault, method.upper(), re.compile(target), times))

    def clear(self) -> None:
        """Forget every rule."""
        self._rules.clear()

    def take(self, method: str, target: str) -> Fault | None:
        """Record a request and return what goes wrong with it."""
        self.requests.append(f"{method} {target}")
        for rule in self._rules:
            if rule.method in ("", method) and rule.target.search(target):
                rule.left -= 1
                if not rule.left:
                    self._rules.remove(rule)
                return rule.fault
        return None

    def cut_watches(self) -> None:
        """End every open watch cleanly."""
        for cut in self._cutters:
            cut()

    def compact(self) -> None:
        """Forget history, so that every older version answers 410."""
        for compact in self._compactors:
            compact()

    def attach(self, cut: Callable[[], None], compact: Callable[[], None]) -> None:
        """Connect the plan to a running server."""
        self._cutters.append(cut)
        self._compactors.append(compact)
