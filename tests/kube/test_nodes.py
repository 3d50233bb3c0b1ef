"""Writes to a node name its uid: another node of that name is not written."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.nodes import (
    mark_drained,
    request_drain,
    withdraw_drain,
    write_taint,
)
from reactive_desched.kube.client.session import Session
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio

Write = Callable[[Session, Node], Awaitable[None]]
WRITES: list[object] = [
    pytest.param(lambda session, node: request_drain(session, node, "ann"), id="drain"),
    pytest.param(withdraw_drain, id="no drain any more"),
    pytest.param(lambda session, node: mark_drained(session, node, None), id="drained"),
    pytest.param(
        lambda session, node: write_taint(session, node, "k", Taint("k", "NoSchedule")),
        id="taint",
    ),
]
OF_ANOTHER = msgspec.json.encode(
    {"details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}}
)
"""As a real API server answers a patch with another uid."""
READ = msgspec.json.encode({"metadata": {"resourceVersion": "7"}})


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_names_the_uid(write: Write, api: ScriptedApi, session: Session) -> None:
    api.answer_next("GET", ScriptedReply(200, READ))
    api.answer_next("PATCH", ScriptedReply(200))

    await write(session, Node("n1", uid="uid-of-n1"))

    patch = msgspec.json.decode(api.requests[-1].body)
    assert patch["metadata"]["uid"] == "uid-of-n1"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("status", "body", "is_gone"), [(404, b"", True), (422, OF_ANOTHER, True), (409, b"", False)]
)
async def test_a_node_that_is_gone_is_distinguished_from_one_that_was_written_since(
    write: Write, status: int, body: bytes, api: ScriptedApi, session: Session, *, is_gone: bool
) -> None:
    api.answer_next("GET", ScriptedReply(200, READ))
    api.answer_next("PATCH", ScriptedReply(status, body))

    with pytest.raises(RequestRejected) as refused:
        await write(session, Node("n1", uid="uid-of-n1"))

    assert (refused.value.is_gone, refused.value.retryable) == (is_gone, not is_gone)


async def test_a_write_without_a_uid_is_by_the_name_alone(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("PATCH", ScriptedReply(200))

    await request_drain(session, Node("n1"), "ann")

    assert "uid" not in msgspec.json.decode(api.requests[-1].body)["metadata"]
