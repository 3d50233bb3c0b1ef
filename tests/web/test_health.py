from dataclasses import dataclass

import anyio
import pytest

from reactive_desched.telemetry.metrics import Histogram
from reactive_desched.web.health import CheckResult, EventLoopPulse, Health, Heartbeat
from tests.support.golden import Golden

GOOD = CheckResult(ok=True)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def failing() -> CheckResult:
    return CheckResult(ok=False, message="No space left\non device")


def broken() -> CheckResult:
    raise RuntimeError("oops")


def test_when_all_is_well_the_short_answer_is_ok() -> None:
    health = Health(Clock())
    health.add_readiness_check("sync-pods", lambda: GOOD)

    report = health.readyz()

    assert (report.ok, report.text(verbose=False)) == (True, "ok")


def test_the_verbose_answer_lists_every_check_in_order() -> None:
    health = Health(Clock())
    health.add_readiness_check("sync-pods", lambda: GOOD)
    health.add_readiness_check("journal", lambda: GOOD)

    assert health.readyz().text(verbose=True) == (
        "[+]sync-pods ok\n[+]journal ok\nreadyz check passed\n"
    )


def test_a_check_that_passes_with_a_note_shows_it_and_is_not_called_ok() -> None:
    health = Health(Clock())
    health.add_readiness_check(
        "sync-csinodes", lambda: CheckResult(ok=True, message="going without (403)")
    )

    report = health.readyz()

    assert (report.ok, report.text(verbose=False)) == (True, "ok")
    assert report.text(verbose=True) == (
        "[!]sync-csinodes: going without (403)\nreadyz check passed\n"
    )


def test_a_failure_has_its_reason_on_one_line_even_without_verbose(golden: Golden) -> None:
    health = Health(Clock())
    health.add_readiness_check("sync-pods", lambda: GOOD)
    health.add_readiness_check("journal", failing)

    report = health.readyz()

    assert not report.ok
    assert report.text(verbose=False) == golden() + "\n"


def test_what_a_terminal_takes_for_a_command_is_escaped() -> None:
    health = Health(Clock())
    health.add_readiness_check("pods", lambda: CheckResult(ok=False, message="no:\n\x1b[2J\u202e"))

    assert "[-]pods failed: no: \\x1b[2J\\u202e\n" in health.readyz().text(verbose=True)


def test_a_check_that_raises_counts_as_failed_and_the_others_are_asked() -> None:
    health = Health(Clock())
    health.add_readiness_check("odd", broken)
    health.add_readiness_check("journal", lambda: GOOD)

    report = health.readyz()

    assert not report.ok
    assert "[-]odd failed: the check itself failed: RuntimeError('oops')" in report.text(
        verbose=True
    )
    assert "[+]journal ok" in report.text(verbose=True)


def test_not_being_ready_is_no_reason_for_a_restart() -> None:
    health = Health(Clock())
    health.add_readiness_check("journal", failing)

    assert health.livez().ok


def test_a_task_that_works_without_a_beat_for_too_long_fails_livez(golden: Golden) -> None:
    clock = Clock()
    health = Health(clock)
    heartbeat = health.add_heartbeat("judge", limit_s=30)
    heartbeat.beat()

    clock.now += 30
    assert health.livez().ok
    clock.now += 0.5
    assert health.livez().text(verbose=False) == golden() + "\n"
    heartbeat.beat()
    assert health.livez().ok


def test_a_task_without_work_may_rest_for_ever() -> None:
    clock = Clock()
    health = Health(clock)
    heartbeat = health.add_heartbeat("judge", limit_s=30)

    clock.now += 3600
    assert health.livez().ok
    heartbeat.beat()
    heartbeat.idle()
    clock.now += 3600
    assert health.livez().ok


def test_two_checks_cannot_share_a_name() -> None:
    health = Health(Clock())
    health.add_heartbeat("loop", limit_s=1)

    with pytest.raises(ValueError, match="'loop' exists"):
        health.add_heartbeat("loop", limit_s=1)


@pytest.mark.anyio
async def test_the_pulse_beats_and_measures_how_late_the_loop_is() -> None:
    clock = Clock()
    heartbeat = Heartbeat(1, clock)
    heartbeat.beat()
    clock.now += 5
    pulse = EventLoopPulse(heartbeat, interval_s=0.001)
    [metric] = pulse.collect()
    [lag] = metric.samples.values()
    assert isinstance(lag, Histogram)

    async with anyio.create_task_group() as group:
        group.start_soon(pulse.run)
        while sum(lag.counts) < 3:  # noqa: ASYNC110  # the pulse has no event to wait on
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()

    assert heartbeat.check().ok
    assert lag.total_s >= 0


def test_a_note_is_shown_with_verbose_and_decides_nothing(golden: Golden) -> None:
    health = Health(Clock())
    health.add_readiness_check("journal", lambda: GOOD)
    notes = [CheckResult(ok=True, message="revision 1a2b"), failing()]
    health.add_info_check("policy", lambda: notes[0])

    assert health.readyz().text(verbose=False) == "ok"
    assert health.readyz().text(verbose=True) == (
        "[+]journal ok\n[+]policy: revision 1a2b\nreadyz check passed\n"
    )
    notes.pop(0)
    report = health.readyz()
    assert (report.ok, report.text(verbose=False)) == (True, "ok")
    assert report.text(verbose=True) == golden() + "\n"


def test_a_note_that_raises_does_no_harm() -> None:
    health = Health(Clock())
    health.add_info_check("policy", broken)

    assert health.readyz().ok
    assert "[!]policy: the check itself failed" in health.readyz().text(verbose=True)


def test_liveness_has_no_notes() -> None:
    health = Health(Clock())
    health.add_info_check("policy", failing)

    assert health.livez().text(verbose=True) == "livez check passed\n"
