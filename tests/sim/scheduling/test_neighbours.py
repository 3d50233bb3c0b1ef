"""Pods that want each other near, or far."""

from typing import Any

import pytest

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import PodAffinityTerm as PodTerm
from reactive_desched.sim.scheduling.neighbours import term_covers
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster

NO_AFFINITY = ("node(s) didn't match pod affinity rules",)
OWN_ANTI = ("node(s) didn't match pod anti-affinity rules",)
THEIR_ANTI = ("node(s) didn't satisfy existing pods anti-affinity rules",)


def term(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    """Return a term about pods labelled app=<app>."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return required affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return required anti-affinity."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def verdicts(world: SimulatedCluster, app: str, **template: Any) -> dict[str, tuple[str, ...]]:
    """Return each node's reasons against a pod labelled app=<app>."""
    pod = world.pod("new", labels={"app": app}, schedulerName="nobody", **template)
    return world.cluster.scheduler.verdicts(pod)


@pytest.fixture
def world() -> SimulatedCluster:
    """Return two nodes in zone a and one in zone b; n4 has no zone."""
    return SimulatedCluster().nodes("n1/a", "n2/a", "n3/b", "n4")


OURS = {"name": "home", "labels": {"team": "x"}}
ALL = LabelSelector()
TEAM = LabelSelector({"team": "x"})


@pytest.mark.parametrize(
    ("names", "selector", "covered"),
    [
        pytest.param((), None, {"home"}, id="neither: its own"),
        pytest.param(("away",), None, {"away"}, id="listed ones only"),
        pytest.param((), ALL, {"home", "away", "team"}, id="the empty selector: all"),
        pytest.param(("away",), ALL, {"home", "away", "team"}, id="listed and all: all"),
        pytest.param((), TEAM, {"team"}, id="a selector: its own is not implied"),
        pytest.param(("away",), TEAM, {"away", "team"}, id="listed and selected: both"),
    ],
)
def test_the_namespaces_of_a_term(
    names: tuple[str, ...], selector: LabelSelector | None, covered: set[str]
) -> None:
    spaces: dict[str, dict[str, str]] = {"home": {}, "away": {}, "team": {"team": "x"}}
    speaking = PodTerm("zone", ALL, names, selector)

    found = {name for name, own in spaces.items() if term_covers(speaking, "home", name, own, {})}

    assert found == covered


def test_an_absent_label_selector_matches_no_pod_and_an_empty_one_every_pod() -> None:
    assert not term_covers(PodTerm("zone"), "home", "home", {}, {"app": "web"})
    assert term_covers(PodTerm("zone", ALL), "home", "home", {}, {"app": "web"})


def test_affinity_demands_a_node_in_the_domain_of_a_matching_pod(world: SimulatedCluster) -> None:
    world.pod("db", nodeName="n1")

    assert verdicts(world, "web", affinity=near(term("db"))) == {
        "n1": (),
        "n2": (),
        "n3": NO_AFFINITY,
        "n4": NO_AFFINITY,
    }


def test_one_pod_must_match_all_affinity_terms_at_once(world: SimulatedCluster) -> None:
    world.pod("db", nodeName="n1")
    world.pod("cache", nodeName="n1")

    found = verdicts(world, "web", affinity=near(term("db"), term("cache")))

    assert set(found.values()) == {NO_AFFINITY}


def test_the_first_pod_of_a_group_may_start_anywhere_that_has_the_key(
    world: SimulatedCluster,
) -> None:
    assert verdicts(world, "web", affinity=near(term("web"))) == {
        "n1": (),
        "n2": (),
        "n3": (),
        "n4": NO_AFFINITY,
    }


def test_the_second_pod_of_a_group_may_not(world: SimulatedCluster) -> None:
    world.pod("web", nodeName="n3")

    found = verdicts(world, "web", affinity=near(term("web")))

    assert [node for node, reasons in found.items() if not reasons] == ["n3"]


def test_anti_affinity_keeps_out_of_the_domain_but_not_off_nodes_without_the_key(
    world: SimulatedCluster,
) -> None:
    world.pod("web", nodeName="n1")
    world.pod("other", nodeName="n3")

    assert verdicts(world, "new", affinity=apart(term("web"))) == {
        "n1": OWN_ANTI,
        "n2": OWN_ANTI,
        "n3": (),
        "n4": (),
    }


def test_each_anti_affinity_term_counts_for_itself(world: SimulatedCluster) -> None:
    world.pod("web", nodeName="n1")
    world.pod("db", nodeName="n3")

    found = verdicts(world, "new", affinity=apart(term("web", HOSTNAME), term("db")))

    assert found == {"n1": OWN_ANTI, "n2": (), "n3": OWN_ANTI, "n4": ()}


def test_a_pod_that_wants_to_be_alone_also_keeps_newcomers_away(world: SimulatedCluster) -> None:
    world.pod("hermit", nodeName="n1", affinity=apart(term("web")))

    assert verdicts(world, "web") == {"n1": THEIR_ANTI, "n2": THEIR_ANTI, "n3": (), "n4": ()}


def test_the_hermits_term_selects_its_own_namespace_only(world: SimulatedCluster) -> None:
    world.store.create("namespaces", {"metadata": {"name": "away"}})
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n1"}
    spec["affinity"] = apart(term("web"))
    world.store.create("pods", {"metadata": {"name": "hermit", "namespace": "away"}, "spec": spec})
    world.cluster.settle()

    assert set(verdicts(world, "web").values()) == {()}


def test_affinity_of_existing_pods_does_not_bind_newcomers(world: SimulatedCluster) -> None:
    world.pod("fan", nodeName="n1", affinity=near(term("fan")))

    assert set(verdicts(world, "fan").values()) == {()}


def test_terminating_pods_still_repel(world: SimulatedCluster) -> None:
    world.pod("web", nodeName="n1")
    world.advance(5)
    world.delete("pods", "web")

    found = verdicts(world, "new", affinity=apart(term("web", HOSTNAME)))
    assert found["n1"] == OWN_ANTI
    world.advance(5)

    assert world.cluster.scheduler.verdicts(world.get("pods", "new"))["n1"] == ()
