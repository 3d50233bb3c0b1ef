"""A receiver of webhooks, and sinks that send to it."""

from collections.abc import AsyncIterator, Callable

import pytest

from reactive_desched.policy.recording import Webhook
from reactive_desched.sinks.webhook import WebhookSink
from reactive_desched.testing.receiver import Receiver

NOW = 1_790_000_000.7


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().serving() as serving:
        yield serving


@pytest.fixture
async def webhooks() -> AsyncIterator[Callable[[Webhook], WebhookSink]]:
    """Return a way to make sinks that are closed in the end; their second never ends."""
    made: list[WebhookSink] = []

    def make(settings: Webhook) -> WebhookSink:
        made.append(WebhookSink(settings, wall=lambda: NOW, clock=lambda: 0.0))
        return made[-1]

    yield make
    for sink in made:
        await sink.close()


@pytest.fixture
def webhook(receiver: Receiver, webhooks: Callable[[Webhook], WebhookSink]) -> WebhookSink:
    return webhooks(Webhook(url=receiver.url))
