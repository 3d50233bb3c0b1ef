"""A policy that selects other nodes: they follow in steps, and nothing is evaluated before."""

from collections.abc import Iterator

import anyio
import pytest

from reactive_desched.controller.readiness import JOURNAL
from reactive_desched.model.changes import Change, NodeAdded, NodeGone
from reactive_desched.model.labels import Selector, parse_selector
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import ControllerBench, make_config

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

POOLS = {"n1": "a", "n2": "b", "n3": "b", "n4": "a"}
NODES = [
    node(name, "gpu:NoSchedule", labels={"pool": pool, "all": "yes"})
    for name, pool in POOLS.items()
]
PODS = [pod(f"p{number}", on=f"n{number}") for number in range(1, 5)]
A, B, ALL, NONE = map(parse_selector, ("pool=a", "pool=b", "all=yes", "all=no"))


def synced(selects: Selector = A) -> ControllerBench:
    bench = ControllerBench(selects=selects)
    bench.sync_and_resume(*NODES, *PODS)
    bench.observer.events.clear()
    return bench


def slices(bench: ControllerBench) -> Iterator[tuple[list[str], list[str]]]:
    """Work in slices that end at the first question; yield the nodes that count, who is found."""
    controller, now = bench.controller, anyio.current_time()
    while (due := controller.next_due(now)) is not None and due <= now:
        found = [intent.pod.name for intent in controller.work(lambda: True)]
        yield [each.name for each in controller.view.nodes()], found


def reconfigured(bench: ControllerBench, selector: Selector) -> None:
    bench.controller.reconfigure(make_config(selects=selector))


async def test_each_slice_has_one_node_follow_and_pods_are_found_after_the_last() -> None:
    bench = synced()
    reconfigured(bench, B)

    seen = list(slices(bench))

    assert seen[:4] == [
        (["n4"], []),
        (["n2", "n4"], []),
        (["n2", "n3", "n4"], []),
        (["n2", "n3"], []),
    ]
    assert sorted(name for _, found in seen[4:] for name in found) == ["p2", "p3"]
    assert bench.observer.of_kind("changed")[1:] == [
        NodeGone("n1"),
        NodeAdded("n2"),
        NodeAdded("n3"),
        NodeGone("n4"),
    ]


async def test_those_who_follow_changes_see_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, followed = synced(), list[Change]()
    followers = bench.controller._followers
    monkeypatch.setattr(followers, "apply", lambda changes, _: followed.extend(changes))
    reconfigured(bench, B)
    list(slices(bench))

    assert followed[1:] == [NodeGone("n1"), NodeAdded("n2"), NodeAdded("n3"), NodeGone("n4")]


async def test_what_changes_meanwhile_follows_the_new_selector() -> None:
    bench = synced(NONE)
    reconfigured(bench, B)
    seen = slices(bench)
    next(seen)

    state, apply = bench.controller.state, bench.controller.apply
    apply(state.remove(NODES[1]))
    apply(state.upsert(node("n4", "gpu:NoSchedule", labels={"pool": "b"})))
    apply(state.upsert(pod("p5", on="n3")))
    found = [name for _, names in seen for name in names]

    assert sorted(found) == ["p3", "p4", "p5"]


async def test_a_reload_in_between_begins_with_all_nodes_again() -> None:
    bench = synced(NONE)
    reconfigured(bench, B)
    next(slices(bench))
    reconfigured(bench, ALL)
    next(slices(bench))
    reconfigured(bench, ALL)  # the same: what is under way goes on

    found = [name for _, names in slices(bench) for name in names]

    assert sorted(found) == ["p1", "p2", "p3", "p4"]


async def test_nodes_follow_while_a_pause_holds() -> None:
    bench = synced()
    bench.readiness.pause(JOURNAL, "its disk is full")
    reconfigured(bench, B)

    last, found = list(slices(bench))[-1]

    assert (last, found) == (["n2", "n3"], [])
