"""What the sinks take from others is bounded, and nothing of it is kept for long."""

import logging
from collections.abc import Callable, Iterator

import anyio
import pytest
from yarl import URL

from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.kafka import client_log
from reactive_desched.sinks.kafka.client_log import KafkaLog
from reactive_desched.sinks.webhook import client as module
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.entries import eviction_entries
from tests.support.receiver import EndlessBody, WebhookReceiver
from tests.support.recording_logger import RecordingLogger


@pytest.fixture
def book() -> Iterator[RecordingLogger]:
    """Return where the client's warnings go, all of them within one minute."""
    book = RecordingLogger()
    heard = KafkaLog(book, lambda: 0.0)
    heard.open()
    yield book
    heard.close()


def test_when_the_kafka_client_logs_too_many_messages_the_oldest_are_forgotten(
    book: RecordingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_log, "MAX_KINDS", 3)
    client = logging.getLogger("aiokafka.conn")

    for text in ("one", "two", "three", "one", "four", "four", "one"):
        client.warning(text)

    told = [line["text"] for line in book.values_of("a Kafka client warns")]
    assert told == ["one", "two", "three", "four", "one"]


@pytest.mark.anyio
async def test_a_host_with_a_name_gets_none_of_its_cookies_back(
    receiver: WebhookReceiver, webhooks: Callable[[WebhookSettings], WebhookSink]
) -> None:
    receiver.answer(204, Set_Cookie="a=b")

    await webhooks(WebhookSettings(url=str(URL(receiver.url).with_host("localhost")))).deliver(
        eviction_entries(2)
    )

    assert len(receiver.posts) == 2
    assert "cookie" not in receiver.posts[1].headers


@pytest.mark.anyio
async def test_of_an_answer_that_does_not_end_only_so_much_is_read(
    receiver: WebhookReceiver, webhook: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DRAIN_TIMEOUT_S", 60.0)
    receiver.script.append(EndlessBody())

    with anyio.fail_after(30):
        assert await webhook.deliver(eviction_entries(1)) == 1
