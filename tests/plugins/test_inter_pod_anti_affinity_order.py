"""Whom a sweep evicts first, and whom it need not evict any more then."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    Annotations,
    Pod,
    PodStatus,
)
from reactive_desched.model.subjects import PodSubject
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.testing.anti_affinity import (
    REGION,
    anti_affinity_term,
    main_node,
    pod_avoiding_db,
)
from reactive_desched.testing.builders import node, with_spec
from reactive_desched.testing.scenario import Scenario

PLUGIN = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())
WEB, DB = {"app": "web"}, {"app": "db"}


def test_the_least_important_goes_first_and_may_settle_it_for_all() -> None:
    term = anti_affinity_term("app=web", REGION)
    loud = [
        pod_avoiding_db(
            name, "n1", anti_affinity_term("app=db", REGION), labels=WEB, priority=priority
        )
        for name, priority in (("high", 100), ("low", 50))
    ]
    weak = pod_avoiding_db("weak", "n1", term, labels=DB, priority=0)
    cluster = Scenario(PLUGIN, main_node("n1"), *loud, weak)

    assert cluster.flagged() == {"high", "low", "weak"}
    assert cluster.evicted_by_sweep() == ["weak"]


def test_of_three_that_exclude_each_other_two_go() -> None:
    term = anti_affinity_term("app=web")
    cluster = Scenario(
        PLUGIN, node("n1"), *(pod_avoiding_db(name, "n1", term, labels=WEB) for name in "cab")
    )

    assert cluster.evicted_by_sweep() == ["a", "b"]


def graded(name: str, priority: int | None, qos: str, prefers: str | None = None) -> Pod:
    made = with_spec(
        pod_avoiding_db(name, "n1", anti_affinity_term("", REGION), priority=priority),
        qos_class=qos,
    )
    return replace(made, annotations=Annotations(prefer_no_eviction=prefers))


IN_ORDER = [
    graded("z1", None, BEST_EFFORT),
    graded("y2", None, BURSTABLE),
    graded("a3", None, BURSTABLE, "true"),
    graded("x4", None, GUARANTEED),
    graded("w5", -5, GUARANTEED),
    graded("v6", 0, BEST_EFFORT),
    graded("u7", 0, BEST_EFFORT, ""),
    graded("t8", 10, BEST_EFFORT),
    graded("b9", 10, BEST_EFFORT, "true"),
    graded("c9", 10, BEST_EFFORT, "true"),
    graded("s9", 10, GUARANTEED),
]


@pytest.mark.parametrize("things", [IN_ORDER, IN_ORDER[::-1]], ids=["as they are", "reversed"])
def test_pods_of_a_node_are_judged_from_the_least_to_the_most_important(things: list[Pod]) -> None:
    cluster = Scenario(PLUGIN, main_node("n1"), *things)

    assert cluster.evicted_by_sweep() == [one.name for one in IN_ORDER[:-1]]


def test_what_the_status_says_about_quality_of_service_goes_first() -> None:
    term = anti_affinity_term("", REGION)
    meek = replace(
        graded("a", None, BEST_EFFORT), status=PodStatus("Running", qos_class=GUARANTEED)
    )
    bold = pod_avoiding_db("b", "n1", term)

    assert Scenario(PLUGIN, main_node("n1"), meek, bold).evicted_by_sweep() == ["b"]


def test_nodes_are_swept_by_name_and_each_as_it_is_then() -> None:
    term = anti_affinity_term("app=web", REGION)
    nodes = main_node("n2"), main_node("n1")
    pods = [
        pod_avoiding_db(name, on, term, labels=WEB)
        for name, on in (("a", "n2"), ("b", "n1"), ("c", "n2"))
    ]
    cluster = Scenario(PLUGIN, *nodes, *pods)

    assert cluster.evicted_by_sweep() == ["b", "a"]


def test_a_new_pod_and_those_it_meets_are_judged_from_the_least_important() -> None:
    term = anti_affinity_term("app=web")
    cluster = Scenario(
        PLUGIN, node("n1"), pod_avoiding_db("low", "n1", term, labels=WEB, priority=1)
    )
    high = pod_avoiding_db("high", "n1", term, labels=WEB, priority=2)
    changes = cluster.state.upsert(high)

    subjects = PLUGIN.subjects(changes[0], cluster.view)
    assert list(subjects) == [PodSubject("low"), PodSubject("high")]
