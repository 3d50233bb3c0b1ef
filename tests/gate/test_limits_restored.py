"""After a restart the limits count what earlier processes did, whatever the clock says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.policy_limits import PluginNodeLimits, PolicyLimits
from reactive_desched.ledger.eviction import scopes_of
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Defer, Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import OwnerReference, ReplicaSet
from reactive_desched.model.outcomes import Outcome
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_configuration, make_profile_of, make_rate_limits
from tests.support.evictions import finish, restore, take
from tests.support.limits import make_rate_limiter

EPOCH = 1_700_000_000.0
PAST = PastEviction(
    "r",
    EPOCH - 1,
    *("uid", "shop", "web-1", "n1", "z1"),
    *("uid-owner", "Deployment", "web"),
    plugin="Test",
    ended_s=EPOCH,
    result="evicted",
)


def past(number: int, ended_s: float | None, result: str = "evicted", **more: Any) -> PastEviction:
    """Make an eviction that ended at a time since the epoch."""
    fields = {"pod_uid": f"uid-{number}", "ended_s": ended_s, "result": result, **more}
    return replace(PAST, requested_s=EPOCH - 9, **fields)


def finding(name: str, plugin: str = "Test", node_limit: int | None = None) -> Finding:
    made = pod(name, on="n1", namespace="shop", owner="ReplicaSet/web-1")
    return Finding(made, plugin, "why", node_limit=node_limit)


RATES = {"cluster": TokenRate(0.1, 4)}


def test_spent_tokens_are_not_there_after_a_restart_and_come_back_in_time() -> None:
    limiter = make_rate_limiter(RATES)
    restore(limiter, [past(n, EPOCH - 5) for n in range(4)], now=3.0, wall_now=EPOCH)

    assert limiter.min_available(3) == {"cluster": pytest.approx(0.5)}
    refusal = take(limiter, finding("a"), 3)
    assert refusal is not None
    assert refusal.available_at == pytest.approx(8)


def test_what_has_refilled_since_is_there() -> None:
    limiter = make_rate_limiter(RATES)
    restore(limiter, [past(n, EPOCH - 100) for n in range(4)], now=3.0, wall_now=EPOCH)

    assert limiter.min_available(3) == {"cluster": 4}


def test_every_scope_is_restored_by_the_name_that_it_had() -> None:
    state = ClusterState()
    for thing in (node("n1", zone="z1"), node("n2", zone="z1")):
        state.upsert(thing)
    top = OwnerReference("Deployment", "web", "uid-owner", controller=True)
    state.upsert(ReplicaSet("owner-web-1", 1, top))
    view = ClusterView(state, lambda: 0.0)
    rates = dict.fromkeys(
        ("cluster", "zone", "node", "namespace", "owner", "plugin"), TokenRate(0.1, 4)
    )
    limiter = make_rate_limiter(rates)
    restore(limiter, [past(1, EPOCH)], now=3.0, wall_now=EPOCH)

    names = {scope: name for scope, name, *_ in limiter.available(3)}

    assert (*names.values(), "") == scopes_of(finding("a"), view)
    assert set(limiter.min_available(3).values()) == {3}


def test_an_eviction_without_an_outcome_holds_its_tokens_until_it_has_one() -> None:
    for consumed, left in ((True, 3), (False, 4)):
        limiter = make_rate_limiter(RATES)
        restore(limiter, [past(1, None, "")], now=3.0, wall_now=EPOCH)
        assert limiter.min_available(100) == {"cluster": 3}

        finish(limiter, "uid-1", 100, evicted=consumed)
        assert limiter.min_available(100) == {"cluster": left}


def test_a_clock_that_was_set_back_opens_no_limit() -> None:
    limiter, windows = make_rate_limiter(RATES), PolicyLimits({"cluster": 1}, 300)
    evictions = [past(n, EPOCH + 86_400 + n) for n in range(4)]
    restore(limiter, evictions, now=3.0, wall_now=EPOCH)
    restore(windows, evictions[:1], now=3.0, wall_now=EPOCH)

    assert limiter.min_available(3) == {"cluster": 0}
    assert isinstance(decision := windows.check(finding("a"), 3), Defer)
    assert decision.retry_at_s == 303


def test_the_windows_of_the_policy_and_of_plugins_continue_where_they_were() -> None:
    windows = PolicyLimits({"cluster": 2, "node": 9, "namespace": 9}, 300)
    own = PluginNodeLimits(300)
    evictions = [past(1, EPOCH - 400), past(2, EPOCH - 200), past(3, EPOCH - 100)]
    for limit in (windows, own):
        restore(limit, evictions, now=50.0, wall_now=EPOCH)

    decision = windows.check(finding("a"), 50)
    assert isinstance(decision, Defer)
    assert decision.retry_at_s == 150
    own_decision = own.check(finding("a", node_limit=2), 50)
    assert isinstance(own_decision, Defer)
    assert own_decision.retry_at_s == 150
    assert own.check(finding("a", plugin="Other", node_limit=2), 50) is None


@pytest.mark.parametrize(
    ("result", "counts"),
    [("evicted", True), ("unknown", True), ("pdb_refused", False), ("cancelled", False)],
)
def test_only_evictions_that_happened_count(result: str, *, counts: bool) -> None:
    gates, gate = make_gate(TokenRate(0.001, 1))
    gates.restore([past(1, EPOCH, result)], 0.0, EPOCH)

    assert isinstance(gate.decide(finding("a"), 0.0), Evict) is not counts


@pytest.mark.parametrize(("result", "counts"), [("evicted", True), ("failed", False)])
def test_an_open_eviction_counts_until_its_outcome_says_otherwise(
    result: str, *, counts: bool
) -> None:
    gates, gate = make_gate(TokenRate(0.001, 1), {"node": 1})
    gates.restore([past(1, None, "")], 0.0, EPOCH)
    assert not isinstance(gate.decide(finding("a"), 0.0), Evict)

    gates.ledger.end_inherited("uid-1", Outcome(result), 5.0, EPOCH)

    assert isinstance(gate.decide(finding("a"), 5.0), Evict) is not counts


def make_gate(
    rate: TokenRate, limits: Mapping[str, int] | None = None, window_s: float = 300
) -> tuple[EvictionControls, Gate]:
    state = ClusterState()
    for name in ("n1", "n2"):
        state.upsert(node(name))
    budgets = make_rate_limits({"cluster": rate}, window_s=window_s)
    config = make_configuration((make_profile_of("test", ()),), limits=limits, budgets=budgets)
    view = ClusterView(state, lambda: EPOCH)
    gates = EvictionControls(view, lambda: 0.0, config, EvictionLedger(view))
    gate = gates.gate(gates.evictor(config.policy.profiles[0].evictor), "test")
    state.keep_indexes([(kind, None) for kind in gate.indexes])
    return gates, gate


class Kill(NamedTuple):
    """A process ends after `lived_s`, and the next one starts `down_s` later."""

    lived_s: float
    down_s: float


class Lives:
    """Processes one after the other that evict as soon as they may; each asks every 250 ms.

    The monotonic clock of each begins at 0. An eviction takes `took_s`; one that is cut short
    happened, and has its outcome when the next process starts.
    """

    def __init__(self, rate: TokenRate, limit: int, window_s: float, took_s: float) -> None:
        self.history: list[PastEviction] = []
        self._wall_s = EPOCH
        self._gate = rate, {"node": limit}, window_s
        self._took_s = took_s

    def live(self, kill: Kill) -> None:
        gates, gate = make_gate(*self._gate)
        gates.restore(self.history, 0.0, self._wall_s)
        for index, eviction in enumerate(self.history):
            if eviction.is_open:
                gates.ledger.end_inherited(eviction.pod_uid, Outcome("evicted"), 0.0, self._wall_s)
                self.history[index] = replace(eviction, ended_s=self._wall_s, result="evicted")
        now = 0.0
        while now < kill.lived_s:
            asking = finding(f"p{len(self.history)}")
            if isinstance(gate.decide(asking, now), Evict):
                self.history.append(self._begun(asking, now))
                now += self._took_s
                if now < kill.lived_s:
                    gates.ledger.end(asking.pod.uid, Outcome("evicted"), now)
                    ended_s = self._wall_s + now
                    self.history[-1] = replace(self.history[-1], ended_s=ended_s, result="evicted")
            now += 0.25
        self._wall_s += kill.lived_s + kill.down_s

    def _begun(self, asking: Finding, now: float) -> PastEviction:
        requested_s = self._wall_s + now
        return replace(past(0, None, ""), pod_uid=asking.pod.uid, requested_s=requested_s)


@given(
    st.lists(st.builds(Kill, st.floats(0.5, 20), st.floats(0, 20)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.floats(0, 1),
)
def test_however_often_it_is_killed_no_stretch_has_more_than_its_limits_allow(
    kills: list[Kill], burst: int, took_s: float
) -> None:
    lives = Lives(TokenRate(0.5, burst), limit=5, window_s=20, took_s=took_s)
    for kill in kills:
        lives.live(kill)

    times = [each.requested_s for each in lives.history]
    for start, earlier in enumerate(times):
        for count, later in enumerate(times[start:], 1):
            assert count <= burst + 0.5 * (later - earlier) + 1e-6
            assert count <= 5 or later - earlier >= 20 - 1e-6
