"""What is remembered of moves: futile ones are repeated ever later, and then not at all."""

from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.app.futile import FutileMoves
from reactive_desched.controller.readiness import STARTUP
from reactive_desched.errors import ConfigError
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import FutileClearing
from reactive_desched.model.objects import Pod
from reactive_desched.moves import memory as memory_module
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import AnyPlugin
from tests.support.configurations import UNLIMITED_MOVES, make_configuration, make_profile_of
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

MINUTE, HOUR = 60, 3600
TAINTED = node("n1", "gpu:NoSchedule")
FUTILE = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 300.0, "ready_timeout_s": 60.0})
COOLDOWN = UNLIMITED_MOVES.model_copy(update={"cooldown_s": 300.0})
NOT_TOLERATED = "gpu:NoSchedule"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Returning(FakeEdgesController):
    """A controller of a cluster whose owners create a pod for each that is evicted.

    The replacement is Ready a second later, on the node that `place` names.
    """

    def __init__(self, moves: MoveSettings, plugin: AnyPlugin | None = None) -> None:
        super().__init__(plugin or NodeTaintsPlugin(NodeTaintsArgs()), moves=moves)
        self.place = "n1"
        self.pods: dict[str, Pod] = {}
        self._replaced = 0

    def create(self, name: str, on: str = "n1", **more: Any) -> None:
        """Deliver a pod that runs."""
        spec = more.pop("spec", None)
        made = pod(name, on=on, created=int(anyio.current_time()), **more)
        self.pods[name] = made if spec is None else msgspec.structs.replace(made, spec=spec)
        self.deliver(self.pods[name])

    async def let_pass(self, seconds: float) -> None:
        """Replace what is evicted, for so long."""
        with anyio.move_on_after(seconds):
            while True:
                if self._replaced == len(self.evicted_names):
                    await self.evictor.called.wait()
                await anyio.sleep(1)
                self._replace()

    def _replace(self) -> None:
        for name in self.evicted_names[self._replaced :]:
            self._replaced += 1
            gone = self.pods.pop(name)
            self.delete(gone)
            kept: dict[str, Any] = {"labels": gone.labels, "spec": gone.spec}
            kept["namespace"] = gone.namespace
            kept["owner"] = str(gone.owners[0])
            self.create(f"{name}+", self.place, **kept)

    @property
    def times(self) -> list[int]:
        """When pods were evicted, in minutes."""
        return [round(at / MINUTE) for _, at in self.evictor.calls]

    def blocked(self) -> Defer | Refuse:
        """Return the last decision, which blocks."""
        decision = self.observer.evaluations[-1].decision
        assert isinstance(decision, Defer | Refuse)
        return decision


async def test_a_futile_move_is_repeated_ever_later_and_then_not_at_all(golden: Golden) -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(10 * HOUR)

    assert flow.times == [0, 5, 15]
    assert flow.blocked().reason == "Futile"
    assert golden() in flow.blocked().message


async def test_after_a_futile_move_every_pod_of_the_owner_rests() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1")
        await flow.let_pass(10)
        flow.create("web-2")
        flow.create("db-1", owner="ReplicaSet/db")
        await flow.let_pass(10)

    assert flow.evicted_names == ["web-1", "db-1"]
    assert ("Defer", "web-2", "MoveMemory") in flow.observer.decisions


async def test_futile_moves_of_another_namespace_that_name_an_owner_leave_its_own_pods_alone() -> (
    None
):
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("claimed", namespace="tenant", owner="Rollout/web")
        await flow.let_pass(10)
        flow.create("web-1", owner="Rollout/web")
        await flow.let_pass(10)

    assert flow.evicted_names == ["claimed", "web-1"]


async def test_a_change_of_a_node_has_a_futile_owner_tried_once_more() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(2 * HOUR)
        assert len(flow.times) == 3

        flow.deliver(node("n4"))
        await flow.let_pass(2 * HOUR)
        assert len(flow.times) == 4

        flow.place = "n4"
        flow.deliver(node("n5"))
        await flow.let_pass(2 * HOUR)

    assert len(flow.times) == 5
    assert [end.finding_holds for end in flow.intent_store.follow_ups] == [True] * 4 + [False]


@pytest.mark.parametrize(("was_full", "moves"), [(True, 4), (False, 3)])
async def test_room_on_another_node_has_a_futile_owner_tried_if_that_was_what_it_lacked(
    *, was_full: bool, moves: int
) -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"))
        flow.create("large", on="n2", owner="ReplicaSet/large", requests={"cpu": "4"})
        if not was_full:
            flow.deliver(node("n3", "gpu:NoSchedule"), node("n4"))
        flow.create("web", requests={"cpu": "1"})
        await flow.let_pass(4 * HOUR)
        assert len(flow.times) == 3

        flow.create("small", owner="ReplicaSet/small", tolerates=["gpu"], requests={"cpu": "1"})
        flow.delete(flow.pods["small"])  # from the node that the pod is on already
        await flow.let_pass(HOUR)
        assert len(flow.times) == 3
        assert flow.blocked().reason == "Futile"

        flow.delete(flow.pods["large"])
        await flow.let_pass(4 * HOUR)

    assert len(flow.times) == moves


async def test_a_finding_that_a_change_of_the_node_brings_is_not_the_moves_fault() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.place = "n2"
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"), node("n4"))
        flow.create("web")
        await flow.let_pass(10)
        flow.place = "n3"
        flow.deliver(node("n2", "gpu:NoSchedule"))
        await flow.let_pass(10)

    assert [round(at) for _, at in flow.evictor.calls] == [0, 10]
    assert [end.finding_holds for end in flow.intent_store.follow_ups] == [False, False]


async def test_a_move_that_helped_ends_the_row_of_futile_ones() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1")
        await flow.let_pass(6 * MINUTE)
        flow.place = "n2"
        await flow.let_pass(20 * MINUTE)
        assert flow.times == [0, 5, 15]

        flow.place = "n1"
        flow.create("web-2")
        await flow.let_pass(6 * MINUTE)

    assert flow.times == [0, 5, 15, 26, 31]


PREFERS = {"tier=first": 100, "tier=second": 50}
FIRST, SECOND = node("n2", labels={"tier": "first"}), node("n3", labels={"tier": "second"})


def prefers_nodes() -> Returning:
    return Returning(FUTILE, NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(PREFERRED,))))


async def test_a_move_to_a_node_that_is_better_and_not_the_best_is_not_futile() -> None:
    async with prefers_nodes().running() as flow:
        flow.place = "n3"
        flow.sync_and_resume(node("n1"), FIRST, SECOND)
        flow.create("large", on="n2", owner="ReplicaSet/large", requests={"cpu": "4"})
        for name in ("a", "b", "c", "d"):
            flow.create(name, prefers=PREFERS, requests={"cpu": "100m"})
        await flow.let_pass(5 * MINUTE)

    assert sorted(flow.evicted_names) == ["a", "b", "c", "d"]
    assert flow.blocked().reason == "NoTargetNodeFits"


async def test_a_move_to_a_node_that_is_no_better_is_futile() -> None:
    async with prefers_nodes().running() as flow:
        flow.place = "n4"
        flow.sync_and_resume(SECOND, FIRST, node("n4", labels={"tier": "second"}))
        flow.create("web", on="n3", prefers=PREFERS)
        await flow.let_pass(10 * HOUR)

    assert flow.times == [0, 5, 15]


async def test_a_pod_waits_for_room_on_a_node_that_it_prefers_and_on_no_other() -> None:
    async with prefers_nodes().running() as flow:
        flow.place = "n2"
        flow.sync_and_resume(node("n1"), FIRST, node("n4"))
        flow.create("large", on="n2", owner="ReplicaSet/large", requests={"cpu": "4"})
        flow.create("other", on="n4", owner="ReplicaSet/other", requests={"cpu": "4"})
        flow.create("web", prefers=PREFERS, requests={"cpu": "1"})
        await flow.let_pass(10)
        assert flow.blocked().reason == "NoTargetNodeFits"

        flow.delete(flow.pods["other"])
        await flow.let_pass(10)
        assert flow.evicted_names == []

        flow.delete(flow.pods["large"])
        await flow.let_pass(10)
        assert flow.evicted_names == ["web"]


async def test_a_node_that_comes_to_be_preferred_wakes_the_pods_that_wait() -> None:
    async with prefers_nodes().running() as flow:
        flow.place = "n3"
        flow.sync_and_resume(node("n1"), FIRST, node("n3"))
        flow.create("large", on="n2", owner="ReplicaSet/large", requests={"cpu": "4"})
        flow.create("web", prefers=PREFERS, requests={"cpu": "1"})
        await flow.let_pass(10)
        assert flow.evicted_names == []

        flow.deliver(SECOND)
        await flow.let_pass(10)

    assert flow.evicted_names == ["web"]


async def test_a_finding_that_comes_after_the_end_of_a_move_continues_with_the_row() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(MINUTE)
        await anyio.sleep(4 * MINUTE + 5)
        assert flow.times == [0, 5]
        flow.readiness.pause(STARTUP, "a test")
        await flow.let_pass(10)
        flow.resume(STARTUP)
        await flow.let_pass(HOUR)

    assert flow.times == [0, 5, 15]


async def test_another_template_is_tried_afresh() -> None:
    old, new = ({"pod-template-hash": each} for each in ("old", "new"))
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1", labels=old)
        await flow.let_pass(10)
        flow.create("web-2", labels=new)
        await flow.let_pass(10)

    assert flow.evicted_names == ["web-1", "web-2"]


async def test_another_policy_has_every_owner_tried_afresh() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(10)
        profiles = (make_profile_of("test", (NodeTaintsPlugin(NodeTaintsArgs()),)),)
        config = make_configuration(profiles, moves=FUTILE)
        policy = msgspec.structs.replace(config.policy, revision="another")
        flow.reconfigure(msgspec.structs.replace(config, policy=policy))
        await flow.let_pass(10)

    assert flow.evicted_names == ["web", "web+"]


async def test_a_replacement_that_no_node_takes_is_futile() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.place = ""
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1")
        await flow.let_pass(2 * MINUTE)
        flow.create("web-2")
        await flow.let_pass(2 * MINUTE)
        assert flow.evicted_names == ["web-1"]

        await flow.let_pass(3 * MINUTE)
    assert flow.evicted_names == ["web-1", "web-2"]


async def test_the_memory_of_a_futile_owner_ends_after_a_day() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(16 * MINUTE)
        await anyio.sleep(24 * HOUR - 5 * MINUTE)
        assert len(flow.times) == 3
        await anyio.sleep(5 * MINUTE)

    assert len(flow.times) == 4


# --- the cool-down ---


async def test_a_replacement_stays_for_the_cooldown_which_doubles() -> None:
    async with Returning(COOLDOWN).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(2 * HOUR)

    assert flow.times == [0, 5, 15, 35, 75]
    assert flow.blocked().reason == "CoolingDown"


async def test_a_pod_that_stayed_twice_as_long_as_necessary_begins_anew() -> None:
    async with Returning(COOLDOWN).running() as flow:
        flow.place = "n2"
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(11 * MINUTE)
        flow.place = "n1"
        flow.deliver(node("n2", "gpu:NoSchedule"))
        await flow.let_pass(6 * MINUTE)

    assert flow.times == [0, 11, 16]


async def test_a_node_that_changes_after_a_pod_landed_there_is_drained_at_once() -> None:
    async with Returning(COOLDOWN).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"), node("n4"))
        flow.create("web")
        for name in ("n2", "n3", "n4"):
            flow.place = name
            await flow.let_pass(30)
            flow.deliver(node(name, "gpu:NoSchedule"))
        flow.place = "n5"
        await flow.let_pass(30)

    assert [at for _, at in flow.evictor.calls] == [0, 30, 60, 90]


async def test_a_sibling_that_came_to_the_node_later_stays_too() -> None:
    async with Returning(COOLDOWN).running() as flow:
        flow.place = "n2"
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1")
        await flow.let_pass(10)
        flow.create("web-2")
        flow.create("db-1", owner="ReplicaSet/db")
        await flow.let_pass(10)
        assert flow.evicted_names == ["web-1", "db-1"]

        await flow.let_pass(5 * MINUTE)
    assert flow.evicted_names == ["web-1", "db-1", "web-2"]


async def test_a_pod_that_is_older_and_leaves_later_frees_no_sibling_that_came_between() -> None:
    async with Returning(COOLDOWN).running() as flow:
        flow.place = "n2"
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web-1")
        await flow.let_pass(100)
        flow.pods["web-0"] = pod("web-0", on="n1", created=0)
        flow.deliver(flow.pods["web-0"])
        await flow.let_pass(10)
        assert flow.evicted_names == ["web-1", "web-0"]

        flow.pods["web-2"] = pod("web-2", on="n1", created=50)
        flow.deliver(flow.pods["web-2"])
        await flow.let_pass(10)
        assert flow.evicted_names == ["web-1", "web-0"]
        assert "stays for 5m" in flow.blocked().message

        await flow.let_pass(5 * MINUTE)
    assert flow.evicted_names == ["web-1", "web-0", "web-2"]


# --- bounds, restarts, and clearing ---


async def test_beyond_the_bound_the_owner_that_moved_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "MAX_OWNERS", 2)
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        for owner in ("a", "b", "c"):
            flow.create(owner, owner=f"ReplicaSet/{owner}")
            await flow.let_pass(10)
        for owner in ("a", "b", "c"):
            flow.create(f"{owner}-2", owner=f"ReplicaSet/{owner}")
        await flow.let_pass(5)

    assert flow.evicted_names == ["a", "b", "c", "a-2"]


async def test_beyond_the_bound_a_move_goes_of_the_owner_of_which_none_ended_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "MAX_MOVES", 4)
    monkeypatch.setattr(memory_module, "MAX_MOVES_LISTED", 2)
    async with Returning(FUTILE).running() as flow:
        memory, minutes = flow.controller.gates.memory, iter(range(1, 10))

        def end_moves(*owners: str) -> list[list[str]]:
            for owner in owners:
                known = {"owner_uid": owner, "replacing_uid": owner, "owner_name": owner}
                flow.controller.restore([past(next(minutes), **known)])
            kept = (memory.moves_of(owner) for owner in "abc")
            return [[move.origin.pod_uid for move in of_one] for of_one in kept]

        await anyio.sleep(HOUR)
        assert end_moves("a", "a", "a") == [["uid-3", "uid-2"], [], []]
        assert end_moves("b", "b") == [["uid-3", "uid-2"], ["uid-5", "uid-4"], []]
        assert end_moves("a", "c") == [["uid-6", "uid-3"], ["uid-5"], ["uid-7"]]
        assert end_moves("c", "c") == [["uid-6", "uid-3"], [], ["uid-9", "uid-8"]]
        assert memory.move_of("uid-5") is None

        memory.clear("a")
        assert [move.origin.pod_uid for move in memory.moves_of("c")] == ["uid-9", "uid-8"]
        assert not memory.moves_of("a")


def past(minute: float, **more: Any) -> PastEviction:
    """An eviction of the ReplicaSet web at this minute, which the plugin found futile."""
    at = minute * MINUTE
    known: dict[str, Any] = {
        "owner_uid": "owner-web",
        "owner_kind": "ReplicaSet",
        "owner_name": "web",
        "replacing_uid": "owner-web",
        "replacing_kind": "ReplicaSet",
        "plugin": NodeTaintsPlugin.name,
        "ended_s": at,
        "result": "evicted",
        "follow_up": PastFollowUp(at + 10, "returned", "n1", True, f"web-{minute}"),
    }
    uid = f"uid-{minute}"
    return PastEviction(f"request-{minute}", at, uid, "default", uid, "n1", **{**known, **more})


async def test_after_a_restart_a_futile_owner_is_still_futile() -> None:
    async with Returning(FUTILE).running() as flow:
        await anyio.sleep(HOUR)
        flow.controller.restore([past(0), past(5), past(15)])
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"), pod("web-15", on="n1"))
        await anyio.sleep(HOUR)

    assert flow.evicted_names == []
    assert flow.blocked().reason == "Futile"


async def test_after_a_restart_an_owner_rests_and_cools_down_as_long_as_before() -> None:
    both = FUTILE.model_copy(update={"cooldown_s": 1200.0})
    async with Returning(both).running() as flow:
        await anyio.sleep(HOUR)
        flow.controller.restore([past(55)])
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.deliver(pod("web-55", on="n1", created=55 * MINUTE), pod("web-1", on="n1", created=9))
        await anyio.sleep(HOUR)

    assert [(name, round(at / MINUTE)) for name, at in flow.evictor.calls] == [
        ("web-1", 60),
        ("web-55", 75),
    ]


async def test_what_was_cleared_before_a_restart_is_not_remembered() -> None:
    async with Returning(FUTILE).running() as flow:
        await anyio.sleep(HOUR)
        flow.controller.restore([past(minute, is_cleared=True) for minute in (0, 5, 15)])
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"), pod("web-15", on="n1"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web-15"]


def futile_of(flow: FakeEdgesController) -> FutileMoves:
    clock = anyio.current_time
    return FutileMoves(flow.controller, flow.intent_store, clock, clock)


async def test_a_person_lists_and_clears_a_futile_owner() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        flow.create("web")
        await flow.let_pass(HOUR)
        futile = futile_of(flow)
        [page, _] = futile.pages
        [order] = futile.orders

        [listed] = page.read({}).owners  # type: ignore[attr-defined]  # a FutileList
        assert (listed.owner, listed.plugin) == ("default/ReplicaSet/web", NodeTaintsPlugin.name)
        assert (listed.futile_moves, listed.parked) == (3, True)
        assert [(move.from_node, move.to_node, move.result) for move in listed.moves] == [
            ("n1", "n1", "returned")
        ] * 3

        answer = await order.carry_out({"owner": listed.owner, "by": "ada", "reason": "more room"})
        assert answer.cleared == 1  # type: ignore[attr-defined]  # a ClearAnswer
        assert flow.intent_store.cleared == [
            FutileClearing(listed.owner, "owner-web", 1, "ada", "more room")
        ]
        assert page.read({}).owners == ()  # type: ignore[attr-defined]  # a FutileList
        await flow.let_pass(10)

    assert len(flow.times) == 4


async def test_an_owner_that_nothing_is_remembered_of_cannot_be_cleared() -> None:
    async with Returning(FUTILE).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), node("n3"))
        [order] = futile_of(flow).orders

        with pytest.raises(ConfigError, match=r"remembered of an owner .*shop/Job/x"):
            await order.carry_out({"owner": "shop/Job/x"})
        with pytest.raises(ConfigError, match="ownr"):
            await order.carry_out({"ownr": "shop/Job/x"})

    assert flow.intent_store.cleared == []
