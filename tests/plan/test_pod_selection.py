"""`plan --pod`, `--namespace`, `--node`, `--owner` and `--plugin` choose what is answered."""

from typing import Any

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.plan.assumed_cluster import original_name, replacement_name
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.report import PlanReport
from reactive_desched.plan.text import TextStyle, lines
from tests.support.golden import Golden

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods]}
"""


def cluster(world: Any) -> str:
    """Two pods on a tainted node, one of them of a Deployment, and pods elsewhere."""
    web = world.pod("web-1")
    web["metadata"]["ownerReferences"][0] |= {"name": "web-5d8", "uid": "rs-web"}
    bare = world.pod("bare")
    bare["metadata"]["ownerReferences"] = []
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": "shop",
            "name": "web-5d8",
            "uid": "rs-web",
            "ownerReferences": [
                {"kind": "Deployment", "name": "web", "uid": "d-web", "controller": True}
            ],
        },
    }
    others = [world.pod("web-2", on="n2"), world.pod("web-3", on="n2", space="bank")]
    nodes = [world.node("n1", "gpu"), world.node("n2"), world.node("n3")]
    return str(world.file(world.listed([*nodes, replica_set, web, bare, *others])))


def look(world: Any, mode: PlanMode = PlanMode.RUN, /, **only: tuple[str, ...]) -> PlanReport:
    report: PlanReport = world.look(
        cluster(world), policy=POLICY, mode=mode, only=only, show_unaffected=True
    )
    return report


def answered(report: PlanReport) -> dict[str, str]:
    """Return what is said of each pod, in a word."""
    said = {each.pod.name: each.reason or each.action for each in report.decisions}
    return {**said, **{each.pod.name: each.reason for each in report.others or ()}}


@pytest.mark.parametrize("mode", [PlanMode.RUN, PlanMode.ONCE])
@pytest.mark.parametrize(
    ("only", "said"),
    [
        pytest.param(
            {},
            {
                "web-1": "Evict",
                "bare": "NoController",
                "web-2": "NothingFound",
                "web-3": "NothingFound",
            },
            id="all",
        ),
        pytest.param({"pods": ("web-1",)}, {"web-1": "Evict"}, id="a name"),
        pytest.param({"pods": ("shop/bare",)}, {"bare": "NoController"}, id="with its namespace"),
        pytest.param({"pods": ("uid-web-2",)}, {"web-2": "NothingFound"}, id="a uid"),
        pytest.param(
            {"pods": ("web-*",), "namespaces": ("shop",)},
            {"web-1": "Evict", "web-2": "NothingFound"},
            id="a pattern in a namespace",
        ),
        pytest.param(
            {"nodes": ("n1",)}, {"web-1": "Evict", "bare": "NoController"}, id="of a node"
        ),
        pytest.param({"pods": ("web-1", "bare"), "nodes": ("n2",)}, {}, id="all must match"),
        pytest.param(
            {"plugins": ("RemoveFailedPods",), "nodes": ("n1",)},
            {"web-1": "NothingFound", "bare": "NothingFound"},
            id="a plugin that found nothing",
        ),
    ],
)
def test_the_answer_is_about_what_was_asked(
    world: Any, mode: PlanMode, only: dict[str, tuple[str, ...]], said: dict[str, str]
) -> None:
    report = look(world, mode, **only)

    assert answered(report) == said
    assert report.matching_pods == len(said)
    assert report.only == only
    counts = report.summary.total
    assert counts.evict + counts.refuse + counts.defer == len(report.decisions)


@pytest.mark.parametrize("mode", PlanMode)
def test_an_owner_is_any_of_the_chain(world: Any, mode: PlanMode) -> None:
    for owner in ("Deployment/web", "d-web", "ReplicaSet/web-5d8", "web-5d8"):
        assert "web-1" in answered(look(world, mode, owners=(owner,)))
    assert answered(look(world, mode, owners=("StatefulSet/web",))) == {}


def test_a_plugin_that_the_policy_does_not_enable_is_wrong_input(world: Any) -> None:
    with pytest.raises(ConfigError, match='"RemoveFailed" is unknown; did you mean RemoveFailedPo'):
        look(world, plugins=("RemoveFailed",))


def test_the_headline_repeats_the_filters(world: Any, golden: Golden) -> None:
    def headline(**only: tuple[str, ...]) -> str:
        return next(iter(lines(look(world, **only), TextStyle())))

    assert headline(pods=("web-*",), nodes=("n1", "n3")).startswith(golden("some"))
    assert headline(pods=("none",)) == golden("none")


def test_replacements_are_named_after_their_pods() -> None:
    first = replacement_name("web-1")
    second = replacement_name(first)

    assert (first, second) == ("web-1-replacement", "web-1-replacement-2")
    assert {original_name(name) for name in ("web-1", first, second)} == {"web-1"}
    assert original_name("a-replacement-x") == "a-replacement-x"
