"""Whom a webhook trusts may change while it runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.authority import CertificateAuthority
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.receiver import WebhookReceiver, close_connection

pytestmark = pytest.mark.anyio

Sinks = Callable[[WebhookSettings], WebhookSink]


async def test_an_authority_exchanged_for_another_is_trusted_without_a_restart(
    webhooks: Sinks, tmp_path: Path, golden: Golden
) -> None:
    old, new = CertificateAuthority(), CertificateAuthority()
    ca_file = old.write(tmp_path / "ca.pem")
    async with WebhookReceiver().serving(new.server_context(tmp_path, "127.0.0.1")) as receiver:
        webhook = webhooks(WebhookSettings(url=receiver.url, ca_file=str(ca_file)))
        with pytest.raises(SinkUnavailable) as caught:
            await webhook.deliver(eviction_entries(1))

        assert golden() in str(caught.value)

        new.write(ca_file)

        assert await webhook.deliver(eviction_entries(1)) == 1


async def test_an_authority_that_is_gone_is_trusted_no_more_once_the_connection_is(
    webhooks: Sinks, tmp_path: Path, golden: Golden
) -> None:
    old, new = CertificateAuthority(), CertificateAuthority()
    ca_file = old.write(tmp_path / "ca.pem")
    async with WebhookReceiver().serving(old.server_context(tmp_path, "127.0.0.1")) as receiver:
        webhook = webhooks(WebhookSettings(url=receiver.url, ca_file=str(ca_file)))
        assert await webhook.deliver(eviction_entries(1)) == 1
        new.write(ca_file)
        receiver.script += [close_connection, close_connection]
        with pytest.raises(SinkUnavailable, match="it closed the connection"):
            await webhook.deliver(eviction_entries(1))

        with pytest.raises(SinkUnavailable) as caught:
            await webhook.deliver(eviction_entries(1))

        assert golden() in str(caught.value)
