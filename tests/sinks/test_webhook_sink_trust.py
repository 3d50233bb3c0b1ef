"""Whom a webhook trusts may change while it runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.recording import Webhook
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.authority import Authority
from tests.support.entries import evictions
from tests.support.receiver import Receiver, cut

pytestmark = pytest.mark.anyio

Sinks = Callable[[Webhook], WebhookSink]


async def test_an_authority_exchanged_for_another_is_trusted_without_a_restart(
    webhooks: Sinks, tmp_path: Path
) -> None:
    old, new = Authority(), Authority()
    ca_file = old.write(tmp_path / "ca.pem")
    async with Receiver().serving(new.server_side(tmp_path, "127.0.0.1")) as receiver:
        webhook = webhooks(Webhook(url=receiver.url, ca_file=str(ca_file)))
        with pytest.raises(SinkUnavailable, match="its certificate is not to be trusted"):
            await webhook.deliver(evictions(1))

        new.write(ca_file)

        assert await webhook.deliver(evictions(1)) == 1


async def test_an_authority_that_is_gone_is_trusted_no_more_once_the_connection_is(
    webhooks: Sinks, tmp_path: Path
) -> None:
    old, new = Authority(), Authority()
    ca_file = old.write(tmp_path / "ca.pem")
    async with Receiver().serving(old.server_side(tmp_path, "127.0.0.1")) as receiver:
        webhook = webhooks(Webhook(url=receiver.url, ca_file=str(ca_file)))
        assert await webhook.deliver(evictions(1)) == 1
        new.write(ca_file)
        receiver.script += [cut, cut]
        with pytest.raises(SinkUnavailable, match="it closed the connection"):
            await webhook.deliver(evictions(1))

        with pytest.raises(SinkUnavailable, match="its certificate is not to be trusted"):
            await webhook.deliver(evictions(1))
