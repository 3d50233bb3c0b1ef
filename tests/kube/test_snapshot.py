import pytest

from reactive_desched.errors import Malformed, RequestRejected
from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.initial_list import list_once
from tests.support.fake_resource import FakeCodec, FakeObject
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio


async def test_everything_is_read_once_over_as_many_pages_as_it_takes(
    api: ScriptedApi, session: Session
) -> None:
    for number in range(1001):
        api.put(f"t{number}", "1")
    staged = await list_once(session, FakeCodec(), lambda _: None)
    assert [*staged.items] == [FakeObject(name, "1") for name in api.objects]
    assert staged.resource_version == str(api.version)
    assert api.count("list") == 3


async def test_what_cannot_be_read_is_reported_and_left_out(
    api: ScriptedApi, session: Session
) -> None:
    items = b'[{"metadata":7},{"metadata":{"name":"good"}}]'
    page = b'{"metadata":{"resourceVersion":"1"},"items":%b}' % items
    api.answer_next("list", ScriptedReply(body=page))
    unreadable: list[Malformed] = []
    staged = await list_once(session, FakeCodec(), unreadable.append)
    assert [*staged.items] == [FakeObject("good", "")]
    assert [error.kind for error in unreadable] == ["Thing"]


@pytest.mark.parametrize(("code", "retryable"), [(403, False), (400, False), (503, True)])
async def test_a_refusal_says_whether_to_try_again(
    api: ScriptedApi, session: Session, code: int, *, retryable: bool
) -> None:
    api.answer_next("list", ScriptedReply(code, b"because"))
    with pytest.raises(RequestRejected, match=f"list {api.path}: {code} because") as caught:
        await list_once(session, FakeCodec(), lambda _: None)
    assert caught.value.retryable is retryable
