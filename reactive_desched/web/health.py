"""Is the process alive, and is it ready to evict? Named checks answer, each with its reason."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import anyio

from reactive_desched.primitives.bounded_text import escaped
from reactive_desched.primitives.loop_clock import loop_clock
from reactive_desched.telemetry.metrics import Histogram, Metric, histogram

LOOP_LAG = histogram("loop_lag_seconds", "How late the event loop ran a timer.")


class CheckResult(NamedTuple):
    """The result of a check now; the message is for a person, on one line.

    A check that passes with a message has a reservation, and its line the mark of one, unless all
    is as it should be: it `is_well`.
    """

    ok: bool
    message: str = ""
    is_well: bool = False

    @classmethod
    def of_parts(cls, problems: Mapping[str, str], otherwise: str) -> "CheckResult":
        """Say of each part what is wrong, empty where nothing is; without any `otherwise`."""
        texts = (f"{name}: {problem or 'ok'}" for name, problem in problems.items())
        return cls(not any(problems.values()), "; ".join(texts) or otherwise)


Check = Callable[[], CheckResult]


class ProbeReport(NamedTuple):
    """The results of all checks of a probe at one moment; those in `info` decide nothing."""

    probe: str
    results: Mapping[str, CheckResult]
    info: Mapping[str, CheckResult] = MappingProxyType({})

    @property
    def ok(self) -> bool:
        """Say whether every check passed."""
        return all(result.ok for result in self.results.values())

    def text(self, *, verbose: bool) -> str:
        """Return the answer in the words of the API server's own probes."""
        if self.ok and not verbose:
            return "ok"
        lines = [_line(name, result) for name, result in self.results.items()]
        lines += [_info_line(name, result) for name, result in self.info.items()]
        return "\n".join([*lines, f"{self.probe} check {'passed' if self.ok else 'failed'}", ""])


class Heartbeat:
    """A stamp by which others see that its owner still gets somewhere.

    A stage beats when it takes up work and rests when it has none: rest may last for ever, work
    between two beats at most `limit_s`.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._last_beat_at: float | None = None

    def beat(self) -> None:
        """Record a heartbeat of the task."""
        self._last_beat_at = self._clock()

    def idle(self) -> None:
        """Say that there is nothing to do."""
        self._last_beat_at = None

    def check(self) -> CheckResult:
        """Fail when the last beat is older than the limit."""
        if self._last_beat_at is None:
            return CheckResult(ok=True)
        age_s = self._clock() - self._last_beat_at
        if age_s <= self._limit_s:
            return CheckResult(ok=True)
        return CheckResult(ok=False, message=f"no progress for {age_s:.1f} s")


class Health:
    """The checks behind /livez and /readyz, asked in the order they were added.

    `clock` is monotonic. /livez is for heartbeats only: what a restart cannot cure must not fail
    it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._info: dict[str, Check] = {}

    def add_heartbeat(self, name: str, limit_s: float) -> Heartbeat:
        """Return a new heartbeat that /livez watches; it is not checked before its first beat."""
        heartbeat = Heartbeat(limit_s, self._clock)
        _add(self._live, name, heartbeat.check)
        return heartbeat

    def add_readiness_check(self, name: str, check: Check) -> None:
        """Add a check to /readyz; a check that raises counts as failed."""
        _add(self._ready, name, check)

    def add_info_check(self, name: str, check: Check) -> None:
        """Show this check on /readyz; its failure does not make the controller unready."""
        _add(self._info, name, check)

    def livez(self) -> ProbeReport:
        """Ask whether a restart is needed."""
        return _run_probe("livez", self._live)

    def readyz(self) -> ProbeReport:
        """Ask whether evictions could be made now."""
        return _run_probe("readyz", self._ready)._replace(info=_run_checks(self._info))


class EventLoopPulse:
    """Beats as long as the event loop turns, and measures how late the loop runs a timer."""

    def __init__(self, heartbeat: Heartbeat, interval_s: float = 0.25) -> None:
        self._heartbeat = heartbeat
        self._interval_s = interval_s
        self._lag = Histogram()

    async def run(self) -> None:
        """Beat until cancelled."""
        now = loop_clock()
        while True:
            self._heartbeat.beat()
            due = now() + self._interval_s
            await anyio.sleep_until(due)
            self._lag.observe(max(0.0, now() - due))

    def collect(self) -> Iterator[Metric]:
        """Yield the loop's lag."""
        yield LOOP_LAG.value(self._lag)


def _add(checks: dict[str, Check], name: str, check: Check) -> None:
    if name in checks:
        raise ValueError(f"a check named {name!r} exists")
    checks[name] = check


def _run_probe(probe: str, checks: Mapping[str, Check]) -> ProbeReport:
    return ProbeReport(probe, _run_checks(checks))


def _run_checks(checks: Mapping[str, Check]) -> Mapping[str, CheckResult]:
    return {name: _run_check(check) for name, check in checks.items()}


def _run_check(check: Check) -> CheckResult:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a probe must answer whatever a check does
        return CheckResult(ok=False, message=f"the check itself failed: {error!r}")


def _line(name: str, result: CheckResult) -> str:
    if result.ok:
        marked = result._replace(ok=result.is_well)
        return _info_line(name, marked) if result.message else f"[+]{name} ok"
    return f"[-]{name} failed: {_on_one_line(result.message) or 'no reason given'}"


def _info_line(name: str, result: CheckResult) -> str:
    return f"[{'+' if result.ok else '!'}]{name}: {_on_one_line(result.message)}"


def _on_one_line(text: str) -> str:
    """Return a text for a terminal: what an API server said may hold commands to it."""
    return escaped(" ".join(text.split()))
