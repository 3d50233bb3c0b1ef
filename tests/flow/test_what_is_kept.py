"""Whatever comes and goes leaves nothing behind: what grows by an eviction is known, and bounded.

Pods of every kind of owner are bound where they may not stay, evicted and gone, again and again.
"""

from typing import Final

import anyio
import pytest
import trio.testing

from reactive_desched.model.objects import StatefulSet
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.testing.builders import condition, node, pod, pod_status
from tests.support.configurations import UNGUARDED, UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.footprint import sizes

pytestmark = pytest.mark.anyio

PODS: Final = 60
FORGOTTEN_S: Final = 4000.0
"""By then all that is remembered for minutes, or for an hour, is forgotten."""

UNREADY: Final = pod_status(conditions=[condition("Ready=False")])
"""It may leave though no replacement comes."""

OWNERS: Final = (
    "ReplicaSet/web",
    "StatefulSet/db",
    "Job/batch",
    "DaemonSet/agent",
    "StatefulSet/one",
    "",
)

BOUNDED: Final = {
    "ChangeLog._keys",  # 2 * KEPT_CHANGES
    "Disruptions._ended",  # MAX_REMEMBERED: bare pods, and those that a guard held
    "MovedWorkloads._blocked",  # MAX_REASONS of each workload that was moved in the last day
    "MovedWorkloads._moves",  # MAX_MOVES, of a day each
    "OwnerIndex._chains",  # MAX_CHAINS_KEPT
    "PodBackoff._entries",  # MAX_BACKOFF_ENTRIES
    "PodStore._tombstones",  # MAX_TOMBSTONES
    "_Round.stay",  # those of a round, MAX_REMEMBERED StatefulSets
    "WaitingPods._came",  # _MAX_CAME: pods of a StatefulSet that went without a token
}
"""What grows, until its bound is reached."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def churn(flow: FakeEdgesController, first: int) -> None:
    """Bind pods of every owner to the node that they may not stay on, until they are gone."""
    for number in range(first, first + PODS):
        bound = [
            pod(
                f"{owner.partition('/')[2] or 'bare'}-{number}",
                on="n1",
                owner=owner,
                status=UNREADY,
            )
            for owner in OWNERS
        ]
        flow.deliver(*bound)
        await anyio.sleep(1)
        for each in bound:
            flow.terminate(each)
            flow.delete(each)
    await anyio.sleep(FORGOTTEN_S)


@pytest.mark.parametrize(
    "guards",
    [
        pytest.param(UNGUARDED, id="no guard asks about the workloads"),
        pytest.param(GuardSettings(), id="the default guards"),
    ],
)
async def test_an_evicted_pod_that_is_gone_leaves_entries_only_where_they_are_bounded(
    guards: GuardSettings,
) -> None:
    flow = FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()),
        moves=UNLIMITED_MOVES,
        guards=guards,
        evictor_args=DefaultEvictorArgs.model_validate({"evictDaemonSetPods": True}),
    )
    async with flow.running():
        single = StatefulSet("default", "one", "owner-one", replicas=1)
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), single)
        await churn(flow, 0)
        before = sizes(flow.pipeline)
        await churn(flow, PODS)
        after = sizes(flow.pipeline)

    assert {name.partition("-")[0] for name in flow.evicted_names} >= {"web", "db", "agent"}
    assert {name for name in after if after[name] > before[name]} <= BOUNDED
