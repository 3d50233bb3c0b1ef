"""Decides when, and from which resource version, a reflector lists or watches again.

`WatchEnd` says why a call ended and `ResumePoint` from which resourceVersion the next watch
starts. `ExponentialBackoff` says how long to wait before it; `ServerProbe` cuts that wait short
when an API server that was down serves again.
"""

from enum import Enum, auto
from http import HTTPStatus
from random import Random

from msgspec import Struct

from reactive_desched.errors import RateLimited, Unreachable
from reactive_desched.kube.client.clock import Clock, move_on_after
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.responses import ApiResponse, ApiStatus, is_web_page
from reactive_desched.kube.client.session import RequestLimits, Transport
from reactive_desched.primitives.wakeup import Epoch, Wakeup

__all__ = [
    "TOLERATED_DENIALS",
    "BackoffConfig",
    "ExponentialBackoff",
    "ResumePoint",
    "ServerProbe",
    "StopReason",
    "WatchEnd",
    "end_from_error",
    "end_from_response",
    "end_from_status",
    "is_older",
]


# --- why a list or a watch ended ----------------------------------------------------------------


class StopReason(Enum):
    """The reason why a list or a watch ended; each calls for another reaction."""

    CLEAN = auto()
    """The server closed the watch between two lines: resume."""
    INITIAL_EVENTS_DONE = auto()
    """All initial events of a streaming list have come: replace the store, read on."""
    UNREACHABLE = auto()
    """The server sent no response: try again after a wait."""
    BROKEN = auto()
    """The connection or the server failed: resume after a wait."""
    IDLE_TIMEOUT = auto()
    """The watch sent nothing for too long: resume on a new connection."""
    REOPENED = auto()
    """This process was suspended, so the connection may be dead: resume on a new one at once."""
    LATE = auto()
    """Changes came that the watch had not brought: resume on short ones."""
    THROTTLED = auto()
    """The server asks for fewer requests: resume after the wait that it names."""
    GONE = auto()
    """The server no longer has our resourceVersion: list again."""
    FAILED = auto()
    """The watch cannot continue from our resourceVersion: list again after a wait."""
    REJECTED = auto()
    """The server does not accept the request."""
    DENIED = auto()
    """We may not read the resource, or the server does not serve it: ask again, seldom."""
    UNAUTHORIZED = auto()
    """The server does not accept our credentials: they are read again, resume after a wait."""


class WatchEnd(Struct, frozen=True, gc=False):
    """The end of a list or watch, with the wait that the server asks for.

    `is_web_page`: what came back is HTML, as of a proxy or a login page. `is_partial`: the response
    broke off. `is_late`: it did not come in time. Of either, a smaller one may come whole.
    """

    reason: StopReason
    message: str = ""
    retry_after_s: float | None = None
    is_web_page: bool = False
    is_partial: bool = False
    is_late: bool = False


_BY_CODE = {
    HTTPStatus.UNAUTHORIZED: StopReason.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: StopReason.DENIED,
    HTTPStatus.NOT_FOUND: StopReason.DENIED,
    HTTPStatus.METHOD_NOT_ALLOWED: StopReason.DENIED,
    HTTPStatus.NOT_IMPLEMENTED: StopReason.DENIED,
    HTTPStatus.REQUEST_TIMEOUT: StopReason.BROKEN,  # of a proxy: the API server has 504 for it
    HTTPStatus.TOO_EARLY: StopReason.BROKEN,
    HTTPStatus.GONE: StopReason.GONE,
    HTTPStatus.TOO_MANY_REQUESTS: StopReason.THROTTLED,
    HTTPStatus.SERVICE_UNAVAILABLE: StopReason.THROTTLED,
}


def end_from_response(response: ApiResponse, call: str, wall_now: float) -> WatchEnd:
    """Classify a response that is not the expected 200; `call` names it, as in `list pods`."""
    error = response.error
    reason = _stop_reason(response.status, error, default=StopReason.BROKEN)
    message = f"{call}: {response.status} {error.message or error.reason}".rstrip()
    message += response.wait_text(wall_now)
    is_page = is_web_page(response.body)
    return WatchEnd(reason, message, response.retry_after_s(wall_now), is_page)


def end_from_status(status: ApiStatus | None, call: str) -> WatchEnd:
    """Classify an ERROR event; a code that says nothing else calls for a new list."""
    if status is None:
        return WatchEnd(StopReason.FAILED, f"{call}: an ERROR event without a Status")
    reason = _stop_reason(status.code, status, default=StopReason.FAILED)
    message = f"{call}: ERROR event {status.code} {status.message or status.reason}".rstrip()
    return WatchEnd(reason, message + status.wait_text, status.retry_after_s)


def end_from_error(error: Unreachable | RateLimited) -> WatchEnd:
    """Classify a call that got no response."""
    if isinstance(error, Unreachable):
        return WatchEnd(
            StopReason.UNREACHABLE,
            str(error),
            is_partial=error.is_partial,
            is_late=error.is_late,
        )
    return WatchEnd(StopReason.THROTTLED, str(error))


def _stop_reason(code: int, error: ApiStatus, *, default: StopReason) -> StopReason:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes):
        return StopReason.GONE
    if error.reason in ("Expired", "Gone"):
        return StopReason.GONE
    by_code = _BY_CODE.get(HTTPStatus(code)) if code in _CODES else None
    if by_code is not None:
        return by_code
    return StopReason.REJECTED if 400 <= code < 500 else default  # noqa: PLR2004  the HTTP class


_CODES = frozenset(HTTPStatus)


# --- from where to resume -----------------------------------------------------------------------

_ACCEPT_AFTER_REJECTIONS = 2


class ResumePoint:
    """The resourceVersion to resume from; empty when a new list is needed."""

    def __init__(self) -> None:
        self.resource_version = ""
        self._newest = ""
        self._rejections = 0

    @property
    def can_resume(self) -> bool:
        """Say whether a watch can start without a new list."""
        return bool(self.resource_version)

    def reset(self) -> None:
        """Ask for a new list, but remember the newest version seen."""
        self._newest = self.resource_version or self._newest
        self.resource_version = ""

    def accepts(self, version: str) -> bool:
        """Say whether a list of this version may replace the store's objects.

        A list older than what was seen comes from a replica that lags; asking again helps. After
        two rejections the list is accepted: the server was restored from a backup.
        """
        if is_older(version, self._newest) and self._rejections < _ACCEPT_AFTER_REJECTIONS:
            self._rejections += 1
            return False
        self._rejections = 0
        return True

    def at_list(self, version: str) -> None:
        """Resume from the version of a list that has replaced the store's objects."""
        self.resource_version = self._newest = version

    def at_event(self, version: str) -> None:
        """Resume from this version; an event without one changes nothing."""
        if version:
            self.resource_version = version

    def at_bookmark(self, version: str) -> None:
        """Move on to a bookmark: no watched object changed up to this version."""
        is_number = version.isdecimal() or not self.resource_version.isdecimal()
        if version and is_number and not is_older(version, self.resource_version):
            self.resource_version = version


def is_older(version: str, than: str) -> bool:
    """Compare two versions as numbers; a version that is no number is never older."""
    if len(version) != len(than):
        return len(version) < len(than) and version.isdecimal() and than.isdecimal()
    return version < than and version.isdecimal() and than.isdecimal()


# --- when to try again --------------------------------------------------------------------------


class BackoffConfig(Struct, frozen=True, gc=False):
    """The growth of the waits: 0.8 s doubling to 30 s, reset after two minutes without failure."""

    initial_s: float = 0.8
    factor: float = 2.0
    longest_s: float = 30.0
    reset_after_s: float = 120.0


class ExponentialBackoff:
    """Waits drawn from [d, 2d) while d doubles, then from the upper half of the longest wait."""

    def __init__(self, rng: Random, config: BackoffConfig | None = None) -> None:
        self._rng = rng
        self._config = config or BackoffConfig()
        self._base_s = 0.0
        self._last_failure: float | None = None

    def next_wait_s(self, now: float) -> float:
        """Count one more failure and return how long to wait after it."""
        if self._last_failure is None or now - self._last_failure > self._config.reset_after_s:
            self.reset()
        self._last_failure = now
        grown_s = self._base_s * self._config.factor or self._config.initial_s
        self._base_s = min(grown_s, self._config.longest_s / 2)
        return self._base_s * (1.0 + self._rng.random())

    def reset(self) -> None:
        """Forget earlier failures: a call succeeded."""
        self._base_s = 0.0


TOLERATED_DENIALS = 4
"""A server that has just started denies requests until it has read the RBAC roles."""
_TOLERATED_PROBES_DENIED = 8
"""The same of probes, which are sent more often: four seconds."""
_PROBE_EVERY_S = 0.5
_SPREAD_S = 0.3
"""When a server serves again, the waiting reflectors ask it spread over this time."""
_PROBE_LIMITS = RequestLimits(connect_s=1.0, read_s=2.0, total_s=2.0)


class ServerProbe:
    """Ends the waits of all reflectors as soon as an API server that was down serves again.

    The reflectors of a session share one probe. After a failed call of any of them, `run` asks
    `/readyz` whether the server is down, and while it is, asks again every half second. Any
    response but 429 and 5xx counts as serving: a proxy may not have `/readyz`, a role may not allow
    it. So does a list or a watch of any of them that is served, whatever `/readyz` says.
    A 401 or 403 right after an outage is not reported for some seconds: a server that has just
    started has not read the RBAC roles. While the server serves the probe, each reflector waits
    out its own back-off.
    """

    def __init__(self, session: Transport, clock: Clock, rng: Random | None = None) -> None:
        self.recoveries = 0
        self._rng = rng or Random()  # noqa: S311  jitter is no secret
        self._session = session
        self._clock = clock
        self._down = False
        self._failed_calls = Epoch()
        self._recovered = Wakeup()

    async def run(self) -> None:
        """Probe the server after each failed call, until cancelled."""
        seen = 0
        while True:
            await self._failed_calls.wait_past(seen)
            seen, denials = self._failed_calls.number, 0
            while (health := await self._ask()) is not _Health.SERVING:
                if health is _Health.DOWN:
                    self._down = True
                else:
                    denials += 1
                    if not self._down or denials > _TOLERATED_PROBES_DENIED:
                        break
                await self._clock.sleep(_PROBE_EVERY_S)
            self.report_success()

    def report_success(self) -> None:
        """End all waits if the server was down: it has just served a request."""
        if self._down:
            self._down = False
            self.recoveries += 1
            self._recovered.notify()

    async def wait(self, seconds: float, recoveries: int) -> bool:
        """Wait this long after a failed call, at most until the server serves again.

        `recoveries` is the count when the call began: if the server has recovered since then,
        the call is repeated at once. Calls that wait then are repeated within 0.3 s, not all in
        the same moment. Returns whether the server has recovered.
        """
        self._failed_calls.advance("a call failed")
        if self.recoveries == recoveries:
            async with move_on_after(self._clock, seconds):
                await self._recovered.wait()
                await self._clock.sleep(self._rng.random() * _SPREAD_S)
        return self.recoveries != recoveries

    async def _ask(self) -> "_Health":
        try:
            response = await self._session.request(
                "GET", "/readyz", limits=_PROBE_LIMITS, priority=RequestPriority.WATCH
            )
        except Unreachable:
            return _Health.DOWN
        except RateLimited:  # our own limit says nothing about the server
            return _Health.SERVING
        if response.status in _DENIED:
            return _Health.DENIED
        is_down = response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_down or response.status == HTTPStatus.TOO_MANY_REQUESTS:
            return _Health.DOWN
        return _Health.SERVING


class _Health(Enum):
    """The health that a response to `/readyz` reports."""

    SERVING = auto()
    DOWN = auto()
    DENIED = auto()


_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
