"""The cost of a pod is written by one patch that names its uid."""

import msgspec
import pytest

from reactive_desched.errors import ClusterError
from reactive_desched.kube.client.deletion_costs import write_deletion_cost
from reactive_desched.kube.client.session import Session
from reactive_desched.testing.builders import pod
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio

WEB = pod("web-1", namespace="shop")
OF_ANOTHER = ScriptedReply(
    422, b'{"details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}}'
)
"""As a real API server answers a patch with another uid."""


async def test_the_patch_has_the_cost_and_the_uid(api: ScriptedApi, session: Session) -> None:
    api.answer_next("PATCH", ScriptedReply(200))

    assert await write_deletion_cost(session, WEB, 7)

    (asked,) = api.requests
    assert asked.path == "/api/v1/namespaces/shop/pods/web-1"
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "7"}
    assert msgspec.json.decode(asked.body) == {
        "metadata": {"uid": WEB.uid, "annotations": annotations}
    }


@pytest.mark.parametrize(
    "reply",
    [ScriptedReply(404), ScriptedReply(409), OF_ANOTHER],
    ids=["gone", "overtaken", "another"],
)
async def test_a_pod_that_is_gone_or_another_one_is_no_failure(
    reply: ScriptedReply, api: ScriptedApi, session: Session
) -> None:
    api.answer_next("PATCH", reply)

    assert not await write_deletion_cost(session, WEB, 7)


async def test_a_right_that_is_missing_is_a_failure(api: ScriptedApi, session: Session) -> None:
    api.answer_next("PATCH", ScriptedReply(403))

    with pytest.raises(ClusterError):
        await write_deletion_cost(session, WEB, 7)


async def test_another_fault_of_the_patch_is_a_failure(api: ScriptedApi, session: Session) -> None:
    body = b'{"details": {"causes": [{"field": "metadata.annotations"}]}}'
    api.answer_next("PATCH", ScriptedReply(422, body))

    with pytest.raises(ClusterError):
        await write_deletion_cost(session, WEB, 7)
