"""A pod with more rules than are evaluated is held and named, and others are evicted."""

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def test_a_pod_of_which_not_all_is_read_is_held_until_it_is() -> None:
    small = pod("large", on="n1")
    large = replace(small, spec=replace(small.spec, unread="300 tolerations (at most 256)"))
    taints = NodeTaintsPlugin(NodeTaintsArgs())
    async with FakeEdgesController(taints).running() as flow:
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), large, pod("web", on="n1"))
        await anyio.sleep(3600)
        assert flow.evicted_names == ["web"]
        [held] = flow.controller.evaluator.queue.pending()
        assert (held.decision.gate, held.decision.reason) == ("LargePods", "PodTooLarge")
        assert "300 tolerations (at most 256)" in held.decision.message

        flow.deliver(replace(small, resource_version=2))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web", "large"]
