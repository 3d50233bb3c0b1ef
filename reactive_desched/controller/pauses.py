"""Follows everything that pauses evictions: suspend, recorder, leadership, brakes and commands."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.public_state import PublicState, public_state
from reactive_desched.controller.readiness import BRAKE, JOURNAL, LEADER, MANUAL, Readiness
from reactive_desched.election.leadership import Leadership
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.recorder import DecisionRecorder
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.model.brakes import CLUSTER, BrakeLifted, SavedBrakes
from reactive_desched.model.health import HealthAnswer
from reactive_desched.model.observer import Observer
from reactive_desched.primitives.wakeup import Followers, Wakeup

SUSPEND_THRESHOLD_S = 3.0
"""The process counts as suspended when so long passed between two checks."""

CHECK_INTERVAL_S = 0.5
"""How often the check is made while nothing else asks for it."""


class SuspendDetector:
    """Measures the time between two checks: SIGSTOP, starvation and a sleeping machine lengthen it.

    `clock` gives seconds and goes on while the machine sleeps.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._checked_at: float | None = None

    def check(self) -> float:
        """Return how many seconds the process was suspended since the last check, 0 if it ran."""
        now = self.clock()
        before, self._checked_at = self._checked_at, now
        if before is not None and now - before > SUSPEND_THRESHOLD_S:
            return now - before
        return 0.0


class EvictionPauses:
    """Follows everything that may pause evictions, and takes the orders to pause and to resume.

    The readiness names the pauses; what a brake held is evaluated again when it is released.
    `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        readiness: Readiness,
        gates: EvictionControls,
        evaluator: Evaluator,
        *,
        recorder: DecisionRecorder,
        observer: Observer,
        work_available: Wakeup,
        suspend: SuspendDetector,
        clock: Callable[[], float],
    ) -> None:
        self.leadership = Leadership(suspend.clock)
        self._readiness = readiness
        self._gates = gates
        self._brakes = gates.brakes
        self._evaluator = evaluator
        self._recorder = recorder
        self._observer = observer
        self._work_available = work_available
        self._suspend = suspend
        self._clock = clock
        self._recorder_fault = self._leader_fault = ""
        self._file_followers = Followers[Callable[[], None]]()

    def check(self) -> str:
        """Name the first pause; empty for none.

        Before that, looks for a suspend, a fault of the recorder, and the end of a term. No brake
        is engaged or released: that a person asks decides nothing.
        """
        if suspended_s := self._suspend.check():
            self._observer.on_suspend(suspended_s)
            self._readiness.pause_sync(f"the process was suspended for {suspended_s:.0f} s")
        if (fault := self._recorder.fault) != self._recorder_fault:
            self._recorder_fault = fault
            self._set(JOURNAL, fault)
            if not fault:
                self._record_brake_notices()
        if (fault := self.leadership.fault) != self._leader_fault:
            self._leader_fault = fault
            self._set(LEADER, fault)
        return self._readiness.reason

    def update(self) -> str:
        """Engage and release the brakes whose time has come, and name the first pause.

        It is for the worker, and for what is in a recording: an order, an answer, a request.
        """
        self.check()
        if self._brakes.is_due(now := self._clock()):
            self._update_brakes(now)
        return self._readiness.reason

    def look(self) -> None:
        """Check, and wake the worker where a brake's time has come that it did not foresee.

        The time of day may have been set, by which a pause ends.
        """
        self.check()
        if self._brakes.is_overdue(self._clock()):
            self._work_available.notify()

    def state(self) -> PublicState:
        """Say in one word, and in a sentence, what the controller does now."""
        self.check()
        now, limiter = self._clock(), self._gates.rate_limiter
        return public_state(
            self._readiness.pauses,
            self._brakes.states(now),
            is_standby=self.leadership.is_standby,
            is_first_sync=not self._readiness.synced.is_set(),
            warm_up=(limiter.warm_up_ratio_at(now), limiter.warm_up_left_s(now)),
            failing=(
                f"plugin {each.plugin} of profile {each.profile} fails: {each.message}"
                for each in self._evaluator.faults.standing()
            ),
        )

    def check_leading(self) -> None:
        """Raise ConfigError on a standby, which takes no orders: the leader would not see them."""
        if fault := self.leadership.fault:
            raise ConfigError(f"only the leader takes orders: {fault}")

    def pause(self, by: str, reason: str, for_s: float | None) -> None:
        """Pause evictions by command, until `resume` or for so many seconds; `by` is who did it."""
        self._brakes.pause_by_command(by, reason, for_s)
        self.update()
        self._work_available.notify()

    def resume(self, by: str, reason: str) -> None:
        """End a pause by command, and release the storm brake."""
        self._brakes.resume_by_command(by, reason)
        self.update()
        self._work_available.notify()

    def restore(self, saved: SavedBrakes, storm_ends: Sequence[float] = ()) -> None:
        """Go on with what an earlier process saved; call it before any work.

        The quiet time after a storm begins again, unless it is known when that ends.
        """
        self._brakes.restore(saved, storm_ends)
        self._gates.answers.restore(saved.answers, self._clock(), self._brakes.wall_s)
        self.update()

    @property
    def storm_ends(self) -> tuple[float, ...]:
        """Return when each storm that is saved ends if it stays quiet, in monotonic seconds."""
        return self._brakes.storm_ends

    def saved_brakes(self) -> SavedBrakes:
        """Return the state of the brakes that is saved for a restart."""
        return replace(self._brakes.saved, answers=self._gates.answers.saved(self._clock()))

    def confirm_kept(self, kept: SavedBrakes | None) -> None:
        """Record the brakes' notices, now that `kept` would outlive a restart; None: not saved."""
        self._brakes.confirm_kept(kept)
        self._record_brake_notices()

    async def brakes_changed(self) -> None:
        """Return when a brake engages or is released."""
        await self._brakes.changed.wait()

    def brake_messages(self) -> Mapping[str, str]:
        """Return why each brake holds evictions; empty for one that does not."""
        return self._brakes.messages()

    def set_pause_file(self, text: str) -> None:
        """Record what the pause file says; empty where there is none."""
        has_changed = text != self.pause_file()
        self._brakes.set_pause_file(text)
        if has_changed:
            for follower in self._file_followers.all:
                follower()
        self.update()

    def pause_file_followed_by(self, follower: Callable[[], None]) -> AbstractContextManager[None]:
        """Call the follower when the pause file says something else, while the block lasts."""
        return self._file_followers.joined_by(follower)

    def next_release(self) -> float | None:
        """Return until when brakes of the whole cluster hold evictions, as time alone ends them.

        It is monotonic seconds, and the earliest moment at which none of those holds that have an
        end; None where none has.
        """
        now = self._clock()
        wall_offset_s = self._brakes.wall_s - now
        ends = (
            each.until_s - wall_offset_s
            for each in self._brakes.states(now)
            if each.scope == CLUSTER and each.until_s is not None
        )
        return max(ends, default=None)

    def take_answer(self, answer: HealthAnswer) -> None:
        """Let the answer to a health check count from now on."""
        self._brakes.take_answer(answer, self._clock())
        self.update()
        self._work_available.notify()

    def health_answers(self) -> tuple[HealthAnswer, ...]:
        """Return the answer to each health check."""
        return self._brakes.health.answers

    def health_answer(self, check: str) -> HealthAnswer:
        """Return the answer to the health check of this name that counts now."""
        return self._brakes.health.answer_to(check)

    def pause_file(self) -> str:
        """Return what the pause file says; empty where there is none."""
        return self._brakes.pause.file_text

    def look_again_at_brake(self) -> bool:
        """Outdate a brake that holds everything, for the next check; say whether one does."""
        if not self._readiness.pauses[BRAKE].reason:
            return False
        self._brakes.outdate()
        return True

    def _update_brakes(self, now: float) -> None:
        """Engage and release brakes, record that, and evaluate again what they held.

        The rates warm up again: all that a brake of the whole cluster held may be due at once.
        """
        brakes = self._brakes
        released = brakes.update(now)
        self._set(MANUAL, brakes.pause.reason)
        self._set(BRAKE, brakes.zones.stop_reason)
        self._record_brake_notices()
        if released:
            if any(isinstance(each, BrakeLifted) and each.scope == CLUSTER for each in released):
                self._gates.rate_limiter.begin_warm_up(now)
            self._evaluator.apply_changes(released, now)
            self._work_available.notify()

    def _set(self, name: str, reason: str) -> None:
        """Pause for this reason, or end the pause where there is none."""
        if reason:
            self._readiness.pause(name, reason)
        else:
            self._readiness.resume(name)

    def _record_brake_notices(self) -> None:
        """Record what engaged and what was released; while nothing can be recorded it waits."""
        if not self._recorder.fault:
            for notice in self._brakes.take_notices():
                self._recorder.record_brake(notice)
                self._observer.on_brake(notice)
