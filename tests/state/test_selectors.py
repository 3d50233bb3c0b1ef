"""What is remembered of selections that only a question needs, and what is forgotten."""

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.state.indexes.anti_affinity import selectors
from reactive_desched.state.indexes.anti_affinity.domains import Domains
from reactive_desched.testing.anti_affinity import BROKEN, avoid, avoiding, db, selector, shy
from reactive_desched.testing.builders import node, pod
from tests.support.footprint import footprint
from tests.support.neighbourhood import FAR, NEAR, SHY, ZONES, Neighbourhood

RACK = "example.com/rack"
WEB = {"app": "web"}


@pytest.fixture
def one_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the last question be remembered."""
    monkeypatch.setattr(selectors, "REMEMBERED_QUESTIONS", 1)


def test_a_spread_constraint_finds_its_counts_and_they_are_kept() -> None:
    bench = Neighbourhood(*ZONES, NEAR, FAR, SHY)
    assert bench.selected("app") == {"a": {"near", "shy"}, "b": {"far"}}

    bench.remove(FAR)
    bench.apply(pod("more", on="n3", labels=WEB), node("n2", zone="c"))

    assert bench.selected("app") == {"a": {"shy"}, "b": {"more"}, "c": {"near"}}


def test_templates_that_say_the_same_share_a_selection() -> None:
    twins = [shy(name, "n1", avoid("app=db")) for name in ("one", "two")]
    bench = Neighbourhood(node("n1"), *twins)

    assert len(bench.state.neighbours.selections) == 1
    assert len(bench.view.repelling(db("db", "n1"))) == 1


def test_at_the_bound_the_selection_asked_for_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "REMEMBERED_QUESTIONS", 2)
    bench = Neighbourhood(*ZONES, NEAR)

    def ask(app: str) -> Domains:
        return bench.view.selected("default", selector(f"app={app}"), ZONE_LABEL)

    first = {app: ask(app) for app in ("db", "x")}
    ask("db")
    first["y"] = ask("y")

    assert len(bench.state.neighbours.selections) == 2
    assert ask("y") is first["y"]
    assert ask("db") is first["db"]
    assert ask("x") is not first["x"]


def test_what_was_forgotten_is_found_out_anew(one_remembered: None) -> None:
    bench = Neighbourhood(*ZONES, NEAR)
    bench.selected("app=db")
    bench.selected("app=x")
    bench.apply(FAR)

    assert bench.selected("app=db") == {"a": {"near"}, "b": {"far"}}
    assert bench.selected("app=x") == {}


def test_a_selection_that_a_pod_refers_to_is_not_forgotten(one_remembered: None) -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR)
    for app in "vwxyz":
        bench.selected(f"app={app}")

    assert bench.avoided("shy") == [{"near"}]
    assert len(bench.state.neighbours.selections) == 2


def test_when_all_pods_are_gone_nothing_is_left_but_the_last_questions(
    one_remembered: None,
) -> None:
    terms = (
        *(avoid("app=db", RACK), avoid("app=web", namespaces=("shop", "bank"))),
        *(avoid("app in (a,b)", namespaces_like="x=y"), BROKEN, avoid("app=db", RACK)),
    )
    plain = pod("shy", on="n1", labels=WEB)
    bench = Neighbourhood(*ZONES, avoiding(plain, *terms), NEAR)
    bench.selected("app=x", namespace="farm")
    never_avoided = Neighbourhood(*ZONES, plain, NEAR)
    for each in (bench, never_avoided):
        each.remove(plain, NEAR)
        each.selected("tier=y", HOSTNAME_LABEL, "farm")

    assert footprint(bench.state.neighbours) == footprint(never_avoided.state.neighbours)
    assert bench.state.neighbours.keys() == {HOSTNAME_LABEL}


def test_labels_that_no_selection_demands_any_more_are_not_indexed(one_remembered: None) -> None:
    bench, never_asked = Neighbourhood(*ZONES, NEAR), Neighbourhood(*ZONES, NEAR)
    bench.selected("app=db")
    for each in (bench, never_asked):
        each.selected("tier=x")

    assert footprint(bench.state.neighbours) == footprint(never_asked.state.neighbours)
