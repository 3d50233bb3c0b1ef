"""One message to a chat about all that is new among proposals."""

import json
from pathlib import Path

import anyio
import pytest
import trio.testing

from reactive_desched.app.proposal_messages import ProposalMessages, post_to_chat
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.model.objects import ClusterObject
from reactive_desched.policy.settings.chat import ChatSettings
from reactive_desched.testing.builders import node, pod
from tests.flow.test_modes import TAINTED
from tests.flow.test_proposals import Proposing, two_pods
from tests.support.chat_rules import slack_faults
from tests.support.receiver import WebhookReceiver
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

SETTINGS = ChatSettings(form="slack", url_file="/none", every_s=60.0)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Chat:
    """A chat that keeps when it was sent what, and fails as scripted."""

    def __init__(self, *script: Exception) -> None:
        self.script = list(script)
        self.messages: list[tuple[float, str]] = []

    async def post(self, body: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.script:
            raise self.script.pop(0)
        message = json.loads(body)
        assert slack_faults(message, len(body)) == []
        text = "\n".join(each["text"]["text"] for each in message["blocks"])
        self.messages.append((anyio.current_time(), text))


async def messages_after(
    chat: Chat, *changes: tuple[float, ClusterObject], lasts_s: float = 1000
) -> Proposing:
    """Run a controller that writes to a chat, and deliver each change at its time."""
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    messages = ProposalMessages(controller.pipeline, SETTINGS, chat.post, "prod", RecordingLogger())
    async with controller.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(messages.run)
        for at, change in changes:
            await anyio.sleep(at - anyio.current_time())
            controller.deliver(change)
        await anyio.sleep(lasts_s)
        tasks.cancel_scope.cancel()
    return controller


async def test_pods_of_one_cause_are_one_message_and_said_once() -> None:
    chat = Chat()
    await messages_after(chat, (10, TAINTED))

    [(_, text)] = chat.messages
    assert text.startswith("prod: 2 pods are ")
    assert "2 pods on node n1: " in text
    assert "approve --group " in text


async def test_what_is_proposed_later_is_one_more_message_and_none_comes_sooner() -> None:
    chat = Chat()
    pods = [pod(f"c{n}", on="n2", owner=f"ReplicaSet/c{n}") for n in range(5)]
    tainted = node("n2", "gpu:NoSchedule")
    bound: list[tuple[float, ClusterObject]] = [(62.0 + n, each) for n, each in enumerate(pods)]
    changes = [(10, TAINTED), *bound, (70, tainted)]
    await messages_after(chat, *changes)

    times = [at for at, _ in chat.messages]
    assert len(times) == 2
    assert times[1] - times[0] >= 60
    assert "5 pods on node n2" in chat.messages[1][1]
    assert "node n1" not in chat.messages[1][1]


async def test_a_proposal_that_ended_and_comes_again_is_said_again() -> None:
    chat = Chat()
    await messages_after(chat, (10, TAINTED), (100, node("n1")), (300, TAINTED))

    assert len(chat.messages) == 2


async def test_a_message_that_fails_is_sent_later_not_before_the_chat_wants_it() -> None:
    chat = Chat(SinkUnavailable("429", 200.0), SinkUnavailable("no answer"))
    await messages_after(chat, (10, TAINTED))

    [(at, text)] = chat.messages
    assert at >= 60 + 200 + 60
    assert "2 pods" in text


async def test_a_message_that_the_chat_rejects_is_not_sent_for_ever() -> None:
    chat = Chat(EventRejected("400 Bad Request"))
    await messages_after(chat, (10, TAINTED))

    assert (chat.script, chat.messages) == ([], [])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_message_is_posted_as_json_to_the_url_in_the_file_and_errors_do_not_name_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "url"
    settings = ChatSettings(form="slack", url_file=str(file))
    with pytest.raises(SinkUnavailable, match="urlFile"):
        await post_to_chat(settings, lambda: 1.0, b"{}")
    async with WebhookReceiver().serving() as receiver:
        file.write_text(f"{receiver.url}secret\n")
        await post_to_chat(settings, lambda: 1.0, b'{"text": "x"}')
        receiver.answer(400, 429, Retry_After="7")
        with pytest.raises(EventRejected) as refused:
            await post_to_chat(settings, lambda: 1.0, b"{}")
        with pytest.raises(SinkUnavailable) as busy:
            await post_to_chat(settings, lambda: 1.0, b"{}")

    post = receiver.posts[0]
    assert (post.path, post.body) == ("/in?a=bsecret", b'{"text": "x"}')
    assert post.headers["content-type"] == "application/json; charset=utf-8"
    assert busy.value.retry_after_s == 7
    assert "secret" not in f"{refused.value}{busy.value}"
