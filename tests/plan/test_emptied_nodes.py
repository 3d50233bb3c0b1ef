"""A preview shows which nodes ConsolidateNodes empties, and when."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from reactive_desched.model.objects import Annotations
from reactive_desched.plan.controller_run import run_controller
from reactive_desched.plan.mode import RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import RunPreview
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.flow import resource_of

NAMES = ("n1", "n2", "n3")


def nodes() -> list[Any]:
    return [node(name, allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}) for name in NAMES]


def web(name: str, on: str) -> Any:
    return pod(name, on=on, requests={"cpu": "500m", "memory": "1Gi"})


CONSOLIDATE = ConsolidateNodesPlugin(ConsolidateNodesArgs.model_validate({"headroom": {}}))


def preview(*objects: Any, plugin: Any = CONSOLIDATE) -> RunPreview:
    snapshot = Snapshot(_by_resource(objects))
    configuration = make_configuration((make_profile_of("test", (plugin,)),))
    found = run_controller(configuration, snapshot, 0.0, RunBounds(), Progress())
    assert found.preview is not None
    return found.preview


def _by_resource(objects: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {resource: [] for resource in WATCHED_KINDS}
    for each in objects:
        found[resource_of(each)].append(each)
    return found


def test_nodes_are_emptied_one_after_the_other_and_take_no_pods_again() -> None:
    found = preview(*nodes(), web("a", "n1"), web("b", "n2"), web("c", "n3"), web("d", "n3"))

    assert len({each.node for each in found.emptied_nodes}) == 2
    first, second = found.emptied_nodes
    assert first.empty_in_seconds is not None
    assert second.empty_in_seconds is not None
    assert first.begins_in_seconds <= first.empty_in_seconds <= second.begins_in_seconds


def test_a_node_with_a_pod_that_stays_is_not_begun() -> None:
    stays = replace(web("a", "n1"), annotations=Annotations(evict="false"))

    found = preview(*nodes()[:2], stays, web("b", "n2"), web("c", "n2"), web("d", "n2"))

    assert [each.node for each in found.emptied_nodes] == ["n2"]


def test_as_many_nodes_are_emptied_as_are_to_be_free_and_they_stay_so() -> None:
    plugin = KeepNodesFreePlugin(KeepNodesFreeArgs(nodes=1))

    found = preview(
        *nodes(), web("a", "n1"), web("b", "n2"), web("c", "n2"), web("d", "n3"), plugin=plugin
    )

    [emptied] = found.emptied_nodes
    assert emptied.node in ("n1", "n3")
    assert emptied.empty_in_seconds is not None
