"""`why` collects the pods of a term in steps, as evaluations do, and looks at pods one by one."""

import anyio
import pytest

from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.primitives.long_answers import PORTION
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import node, pod
from reactive_desched.why.explanation import Explainer, PodExplanation
from reactive_desched.why.question import NodeExplanation, Question, answer
from tests.support.counted_steps import counted
from tests.support.flow import FakeEdgesController

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CROWD = 8 * PORTION


def flow_with_a_crowd() -> FakeEdgesController:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    crowd = [pod(f"p{number}", on="n1", labels={"app": "db"}) for number in range(CROWD)]
    shy = with_anti_affinity(pod("shy", on="n2"), anti_affinity_term("app=db"))
    other = with_anti_affinity(pod("other", on="n2"), anti_affinity_term("app in (db, x)"))
    flow.sync_and_resume(node("n1"), node("n2"), *crowd, shy, other)
    return flow


def clocks() -> ClockPair:
    return ClockPair(anyio.current_time(), 0)


@pytest.mark.parametrize("name", ["shy", "other"])
async def test_a_pod_is_explained_in_steps_where_many_others_have_to_be_collected(
    name: str,
) -> None:
    flow = flow_with_a_crowd()

    question = Question(pod=f"default/{name}")
    steps, explained = counted(answer(flow.controller, question, (), clocks))

    assert steps >= CROWD / PORTION - 2
    assert isinstance(explained, PodExplanation)
    asked = flow.controller.view.pod(explained.uid)
    assert asked is not None
    assert explained == Explainer(flow.controller, (), clocks()).explain(asked)


async def test_the_pods_of_a_node_are_looked_at_one_by_one() -> None:
    flow = flow_with_a_crowd()

    steps, explained = counted(answer(flow.controller, Question(node="n2"), (), clocks))

    assert isinstance(explained, NodeExplanation)
    assert [each.name for each in explained.pods] == ["other", "shy"]
    assert steps == len(explained.pods)
