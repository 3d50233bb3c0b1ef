"""Where events go: a receiver of webhooks, a Kafka cluster, and sinks that send to them."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from reactive_desched.policy.settings.recording import KafkaSettings, WebhookSettings
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.kafka_way import TOPIC, KafkaPipeline
from tests.support.mock_kafka import MockKafka, mock_kafka
from tests.support.receiver import WebhookReceiver
from tests.support.scripted_sink import SinkRunnerHarness

NOW = 1_790_000_000.7


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with WebhookReceiver().serving() as serving:
        yield serving


@pytest.fixture
async def webhooks() -> AsyncIterator[Callable[[WebhookSettings], WebhookSink]]:
    """Return a way to make sinks that are closed in the end; their second never ends."""
    made: list[WebhookSink] = []

    def make(settings: WebhookSettings) -> WebhookSink:
        made.append(WebhookSink(settings, wall=lambda: NOW, clock=lambda: 0.0))
        return made[-1]

    yield make
    for sink in made:
        await sink.close()


@pytest.fixture
def webhook(
    receiver: WebhookReceiver, webhooks: Callable[[WebhookSettings], WebhookSink]
) -> WebhookSink:
    return webhooks(WebhookSettings(url=receiver.url))


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    """Two brokers, and a topic of three partitions."""
    with mock_kafka(2) as cluster:
        cluster.create_topic(TOPIC, 3)
        yield cluster


@pytest.fixture
def way(kafka: MockKafka, tmp_path: Path) -> KafkaPipeline:
    return KafkaPipeline(tmp_path, KafkaSettings(brokers=kafka.brokers, topic=TOPIC))


@pytest.fixture
def one_lane(kafka: MockKafka, tmp_path: Path) -> KafkaPipeline:
    """A way to a topic of one partition, `one`."""
    kafka.create_topic("one", 1)
    return KafkaPipeline(tmp_path, KafkaSettings(brokers=kafka.brokers, topic="one"))


@pytest.fixture
def here(tmp_path: Path) -> SinkRunnerHarness:
    """Return a relay on virtual time, and all it works with."""
    return SinkRunnerHarness(tmp_path)
