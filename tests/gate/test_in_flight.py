import msgspec
import pytest

from reactive_desched.gate.in_flight import CACHE_LAG_S, InFlightEvictions
from reactive_desched.ledger import ledger as ledger_module
from reactive_desched.ledger.ledger import KEPT_S
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.evictor import Evictor
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.model.evictors.eviction import EVICTION_API
from reactive_desched.model.evictors.soft_eviction import SOFT_EVICTION
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import Annotations, Pod
from reactive_desched.model.outcomes import EVICTED, FAILED, Outcome
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.testing.builders import pod
from tests.support.evictions import make_ledger
from tests.support.golden import Golden


class Clock:
    """Time that stands still until told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Memory(InFlightEvictions):
    """The gate over a ledger of its own."""

    def __init__(self, clock: Clock) -> None:
        self.ledger = make_ledger()
        super().__init__(self.ledger, clock)

    def reserve(self, one: Pod) -> None:
        self.ledger.decide(Finding(one, "Test", "why"), "test", self._clock())

    def release(self, one: Pod, *, evicted: bool) -> None:
        self.ledger.end(one.uid, Outcome(EVICTED if evicted else FAILED), self._clock())

    def close(self, one: Pod) -> None:
        eviction = self.ledger.current(one.uid)
        assert eviction is not None
        self.ledger.follow_up(eviction, MoveEnd("moved"), self._clock())


WEB = Finding(pod("web", on="n1"), "Test", "why")


def test_a_pod_is_refused_from_its_decision_to_its_end_and_waits_for_that_end(
    golden: Golden,
) -> None:
    memory = Memory(Clock())
    assert memory.check(WEB, 0) is None

    memory.reserve(WEB.pod)

    assert memory.check(WEB, 0) == Refuse(
        WEB,
        "InFlight",
        "EvictionInProgress",
        golden(),
        (WakeOnPod("web"), WakeOnEviction("web")),
        pod_leaves=True,
    )
    memory.release(WEB.pod, evicted=False)
    assert memory.check(WEB, 0) is None


def test_another_pod_of_the_same_name_is_not_meant() -> None:
    memory = Memory(Clock())
    memory.reserve(WEB.pod)

    assert memory.check(Finding(pod("web", uid="reborn", on="n1"), "Test", "why"), 0) is None


def test_an_evicted_pod_is_remembered_until_its_deletion_should_show() -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.reserve(WEB.pod)
    memory.release(WEB.pod, evicted=True)

    clock.now += CACHE_LAG_S - 0.1
    assert memory.check(WEB, 0) is not None
    clock.now += 0.2
    assert memory.check(WEB, 0) is None


def test_an_eviction_that_takes_longer_than_that_is_still_under_way() -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.reserve(WEB.pod)
    clock.now += 10 * CACHE_LAG_S

    assert memory.check(WEB, 0) is not None


def test_the_oldest_evicted_pod_is_forgotten_at_the_bound(monkeypatch) -> None:  # type: ignore[no-untyped-def]  # pytest's own
    monkeypatch.setattr(ledger_module, "MAX_KEPT", 2)
    clock = Clock()
    memory = Memory(clock)
    gone = [Finding(pod(name, on="n1"), "Test", "why") for name in "abc"]
    for finding in gone:
        memory.reserve(finding.pod)
        memory.release(finding.pod, evicted=True)
        memory.close(finding.pod)
        clock.now += 1

    assert [f.pod.name for f in gone if memory.check(f, 0)] == ["b", "c"]


def test_a_leaving_pod_is_refused_even_if_it_asks_to_be_evicted() -> None:
    leaving = msgspec.structs.replace(pod("web", on="n1", evict="true"), deletion_s=1)

    refusal = Memory(Clock()).check(Finding(leaving, "Test", "why"), 0)

    assert refusal is not None
    assert refusal.reason == "PodTerminating"
    assert refusal.wake_on == (WakeOnPod(leaving.uid),)


LAUNCHER = msgspec.structs.replace(
    pod("launcher", on="n1"), annotations=Annotations(request_evict_only="")
)
MOVING = msgspec.structs.replace(
    LAUNCHER, annotations=Annotations(request_evict_only="", eviction_in_progress="")
)


def test_a_pod_that_another_program_was_asked_to_move_has_ten_minutes_to_begin(
    golden: Golden,
) -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.reserve(LAUNCHER)
    memory.release(LAUNCHER, evicted=True)
    clock.now += EVICTION_API.begins_within_s - 1

    refusal = memory.check(Finding(LAUNCHER, "Test", "why"), clock.now)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_at_s) == ("EvictionInBackground", clock.now + 1)
    assert refusal.says(clock.now) == golden()
    assert refusal.pod_leaves
    clock.now += 1.1
    assert memory.check(Finding(LAUNCHER, "Test", "why"), clock.now) is None


def test_an_annotation_that_says_another_program_moves_the_pod_may_say_no() -> None:
    memory = Memory(Clock())
    for asked, moves in (("false", ""), ("", "false")):
        annotations = Annotations(request_evict_only=asked, eviction_in_progress=moves)
        launcher = msgspec.structs.replace(LAUNCHER, annotations=annotations)
        assert memory.check(Finding(launcher, "Test", "why"), 0) is None


def test_a_pod_stays_in_progress_as_long_as_its_annotation_says_so() -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.reserve(LAUNCHER)
    memory.release(LAUNCHER, evicted=True)
    clock.now += 100

    refusal = memory.check(Finding(MOVING, "Test", "why"), clock.now)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_at_s) == ("EvictionInBackground", None)
    assert memory.check(Finding(LAUNCHER, "Test", "why"), clock.now) is None, (
        "it may be asked again"
    )


def test_after_a_restart_the_annotation_says_that_a_pod_is_being_moved() -> None:
    assert Memory(Clock()).check(Finding(MOVING, "Test", "why"), 0) is not None
    alone = msgspec.structs.replace(LAUNCHER, annotations=Annotations(eviction_in_progress=""))
    assert Memory(Clock()).check(Finding(alone, "Test", "why"), 0) is None


def test_a_softly_evicted_pod_leaves_until_the_program_that_was_asked_had_its_time() -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.reserve(WEB.pod)
    memory.ledger.request(WEB.pod.uid, "r", clock.now, SOFT_EVICTION.name)
    memory.release(WEB.pod, evicted=True)
    memory.close(WEB.pod)

    clock.now += SOFT_EVICTION.begins_within_s - 1
    refusal = memory.check(WEB, clock.now)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_at_s) == ("EvictionInBackground", clock.now + 1)
    assert memory.is_evicting(WEB.pod.uid)

    clock.now += 1.1
    assert memory.check(WEB, clock.now) is None
    assert not memory.is_evicting(WEB.pod.uid)


def test_a_soft_eviction_that_failed_refuses_nothing() -> None:
    memory = Memory(Clock())
    memory.reserve(WEB.pod)
    memory.ledger.request(WEB.pod.uid, "r", 0.0, SOFT_EVICTION.name)
    memory.release(WEB.pod, evicted=False)

    assert memory.check(WEB, 0) is None


@pytest.mark.parametrize("evictor", EVICTORS.values(), ids=lambda each: each.name)
def test_the_ledger_keeps_an_eviction_for_as_long_as_its_evictor_waits(evictor: Evictor) -> None:
    assert evictor.begins_within_s <= KEPT_S
