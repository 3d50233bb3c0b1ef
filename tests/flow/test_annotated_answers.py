"""Proposals answered by the annotation of a pod, its workload or its namespace."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import ProposalsApproved, ProposalsRejected
from reactive_desched.errors import ConfigError
from reactive_desched.model.approvals import WrittenAnswer, parse_answer
from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    Deployment,
    Namespace,
    OwnerReference,
    Pod,
    ReplicaSet,
)
from reactive_desched.policy.settings.proposals import AnnotatedKind, ProposalSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.flow.test_modes import TAINTED
from tests.flow.test_proposals import Proposing

pytestmark = pytest.mark.anyio

APPROVES = "approve until 1970-01-01T01:00:00Z change 4711"
REJECTS = "reject until 1970-01-01T01:00:00Z: month-end batch"

WEB = pod("web", on="n1")
DEPLOYED_BY = OwnerReference("Deployment", "web", "d-web", controller=True)
SET = ReplicaSet("owner-web", controller=DEPLOYED_BY)
DEPLOYMENT = Deployment("default", "web", "d-web")
SPACE = Namespace("default")

Answering = Callable[[str | None], ClusterObject]


def on_pod(answer: str | None) -> Pod:
    return replace(WEB, annotations=Annotations(answer=answer))


def on_deployment(answer: str | None) -> Deployment:
    return replace(DEPLOYMENT, answer=answer)


def on_namespace(answer: str | None) -> Namespace:
    return replace(SPACE, answer=answer)


CARRIERS = [
    pytest.param(on_pod, "pod", "pod default/web", id="the pod"),
    pytest.param(on_deployment, "workload", "Deployment default/web", id="its Deployment"),
    pytest.param(on_namespace, "namespace", "namespace default", id="its namespace"),
]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Asking(Proposing):
    """A controller that proposes, and whose settings ask some objects for their annotation."""

    def __init__(
        self, *kinds: AnnotatedKind, rates: dict[str, TokenRate | None] | None = None
    ) -> None:
        super().__init__(rates=rates)
        written = self.config.written
        assert written is not None
        asked = {"proposals": ProposalSettings(annotations_of=kinds)}
        self.controller.reconfigure(replace(self.config, written=written.model_copy(update=asked)))
        self.sync_and_resume(node("n1"), node("n2"), WEB, SET, DEPLOYMENT, SPACE)

    @property
    def records(self) -> list[Any]:
        """The answers that were recorded."""
        kinds = ProposalsApproved, ProposalsRejected
        return [each for each in self.intent_store.events if isinstance(each, kinds)]

    async def waits(self) -> tuple[int, int]:
        """Return how many are proposed, and how many rejected."""
        found = await self.proposals()
        return found.total, found.rejected


@pytest.mark.parametrize(("answering", "kind", "name"), CARRIERS)
async def test_an_annotation_approves_and_that_is_recorded(
    answering: Answering, kind: AnnotatedKind, name: str
) -> None:
    controller = Asking(kind)
    async with controller.running():
        controller.deliver(TAINTED)
        assert await controller.waits() == (1, 0)
        controller.deliver(answering(APPROVES))
        await anyio.sleep(5)

    assert controller.evicted_names == ["web"]
    [record] = controller.records
    assert isinstance(record, ProposalsApproved)
    assert (record.by, record.message) == (f"the annotation of {name}", "change 4711")
    assert record.until.timestamp() == 3600


@pytest.mark.parametrize(("answering", "kind", "name"), CARRIERS)
async def test_an_annotation_rejects_until_its_time_and_that_is_recorded(
    answering: Answering, kind: AnnotatedKind, name: str
) -> None:
    controller = Asking(kind)
    controller.deliver(answering(REJECTS))
    async with controller.running():
        controller.deliver(TAINTED)
        assert await controller.waits() == (0, 1)
        [record] = controller.records
        await anyio.sleep(3600)
        assert await controller.waits() == (1, 0)

    assert controller.evicted_names == []
    assert isinstance(record, ProposalsRejected)
    assert (record.by, record.message) == (f"the annotation of {name}", "month-end batch")


@pytest.mark.parametrize(("answering", "kind", "name"), CARRIERS)
async def test_an_annotation_that_settings_do_not_ask_for_answers_nothing(
    answering: Answering, kind: AnnotatedKind, name: str
) -> None:
    kinds: tuple[AnnotatedKind, ...] = ("pod", "workload", "namespace")
    controller = Asking(*(each for each in kinds if each != kind))
    async with controller.running():
        controller.deliver(TAINTED)
        controller.deliver(answering(APPROVES))
        assert await controller.waits() == (1, 0)

    assert (controller.evicted_names, controller.records, name) == ([], [], name)


async def test_by_default_no_annotation_is_asked_for() -> None:
    assert ProposalSettings().annotations_of == ()
    controller = Asking()
    for answering in (on_pod, on_deployment, on_namespace):
        controller.deliver(answering(APPROVES))
    async with controller.running():
        controller.deliver(TAINTED)
        assert await controller.waits() == (1, 0)

    assert controller.evicted_names == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("true", id="no answer"),
        pytest.param("approve", id="no time"),
        pytest.param("approve until 1970-01-01T01:00:00", id="no zone"),
        pytest.param("approve until tomorrow", id="no moment"),
        pytest.param("Approve until 1970-01-01T01:00:00Z", id="another word"),
        pytest.param("approve until 1970-03-01T01:00:00Z", id="more than 31 days"),
        pytest.param("approve until 1969-12-31T23:00:00Z", id="its time is over"),
    ],
)
async def test_what_does_not_say_until_when_approves_nothing(text: str) -> None:
    controller = Asking("pod")
    async with controller.running():
        controller.deliver(TAINTED)
        controller.deliver(on_pod(text))
        assert await controller.waits() == (1, 0)

    assert (controller.evicted_names, controller.records) == ([], [])


async def test_a_nearer_annotation_that_is_not_understood_keeps_a_farther_one_from_approving() -> (
    None
):
    controller = Asking("pod", "namespace")
    controller.deliver(on_pod("no, please"))
    controller.deliver(on_namespace(APPROVES))
    async with controller.running():
        controller.deliver(TAINTED)
        assert await controller.waits() == (1, 0)

    assert controller.evicted_names == []


async def test_the_nearest_annotation_decides() -> None:
    controller = Asking("pod", "namespace")
    controller.deliver(on_namespace(APPROVES))
    controller.deliver(on_pod(REJECTS))
    async with controller.running():
        controller.deliver(TAINTED)
        assert await controller.waits() == (0, 1)
        controller.deliver(on_pod(None))
        await anyio.sleep(5)

    assert controller.evicted_names == ["web"]


async def test_an_approval_that_is_removed_before_the_pod_goes_is_none() -> None:
    controller = Asking("namespace", rates={"cluster": TokenRate(per_second=1 / 600, burst=1)})
    async with controller.running():
        await anyio.sleep(700)
        controller.deliver(pod("first", on="n1", owner="ReplicaSet/first"))
        controller.deliver(on_namespace(APPROVES))
        controller.deliver(TAINTED)
        await anyio.sleep(5)
        assert len(controller.evicted_names) == 1
        controller.deliver(on_namespace(None))
        await anyio.sleep(1500)
        assert await controller.waits() == (1, 0)

    assert len(controller.evicted_names) == 1


async def test_an_approval_that_ends_before_the_pod_goes_is_none() -> None:
    controller = Asking("namespace", rates={"cluster": TokenRate(per_second=1 / 3600, burst=1)})
    async with controller.running():
        await anyio.sleep(3500)
        controller.deliver(pod("first", on="n1", owner="ReplicaSet/first"))
        controller.deliver(on_namespace(APPROVES))
        controller.deliver(TAINTED)
        await anyio.sleep(5000)
        assert await controller.waits() == (1, 0)

    assert len(controller.evicted_names) == 1


async def test_an_approval_is_read_again_by_the_next_process_and_by_another_leader() -> None:
    controller = Asking("namespace")
    controller.deliver(on_namespace(APPROVES))
    controller.controller.pauses.restore(SavedBrakes())
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(5)

    assert controller.evicted_names == ["web"]


async def test_a_person_does_not_approve_what_an_annotation_rejects() -> None:
    controller = Asking("namespace")
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        controller.deliver(on_namespace(REJECTS))
        await anyio.sleep(5)
        with pytest.raises(ConfigError, match="while an annotation rejects it"):
            await controller.answer("approve", proposals=[ids["web"]])
        with pytest.raises(ConfigError, match="nothing is proposed"):
            await controller.answer("approve", all=True)
        await anyio.sleep(5)

    assert controller.evicted_names == []


async def test_a_person_rejects_what_an_annotation_approves() -> None:
    controller = Asking("namespace", rates={"cluster": TokenRate(per_second=1 / 600, burst=1)})
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("reject", proposals=[ids["web"]])
        controller.deliver(on_namespace(APPROVES))
        await anyio.sleep(5)

    assert controller.evicted_names == []


async def test_an_approval_by_a_person_is_not_recorded_as_one_of_the_annotation() -> None:
    controller = Asking("namespace", rates={"cluster": TokenRate(per_second=1 / 600, burst=1)})
    async with controller.running():
        controller.deliver(TAINTED)
        await controller.proposals()
        await controller.answer("approve", all=True, by="ann")
        controller.deliver(on_namespace(APPROVES))
        await anyio.sleep(700)

    assert [each.by for each in controller.records] == ["ann"]


def test_a_reason_may_follow_the_time() -> None:
    read = parse_answer("  approve   until 1970-01-01T02:00:00+01:00:  change\n4711 ")

    assert read == WrittenAnswer(approves=True, until_s=3600.0, reason="change 4711")


@pytest.mark.parametrize(("answering", "kind", "_"), CARRIERS)
async def test_a_rejection_by_annotation_stops_what_was_decided_before(
    answering: Answering, kind: AnnotatedKind, _: str
) -> None:
    controller = Asking(kind)
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", proposals=[*ids.values()])
        controller.intent_store.slow_s = 2.0
        await anyio.sleep(1)
        assert controller.intent_store.begun == ["web"]
        controller.deliver(answering(REJECTS))
        await anyio.sleep(10)

    assert controller.evicted_names == []
    assert controller.observer.outcomes == [("web", "cancelled")]
