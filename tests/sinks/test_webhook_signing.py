import base64
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.receiver import ReceivedPost, WebhookReceiver

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Sinks = Callable[[WebhookSettings], WebhookSink]


def signed(key: bytes, post: ReceivedPost) -> str:
    """Sign a request as its receiver would."""
    text = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode()
    return (
        "v1," + base64.b64encode(hmac.new(key, text + post.body, hashlib.sha256).digest()).decode()
    )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param("MfKQ9r8GKYqrTwjU\n", [b"MfKQ9r8GKYqrTwjU"], id="plain"),
        pytest.param("whsec_AAECAwQ=", [b"\0\1\2\3\4"], id="as the standard writes it"),
        pytest.param("whsec_AAECAwQ", [b"\0\1\2\3\4"], id="without padding"),
        pytest.param("  new \r\n\n old\n", [b"new", b"old"], id="two, while they are exchanged"),
    ],
)
async def test_a_request_is_signed_with_each_secret_of_the_file(
    text: str, keys: list[bytes], receiver: WebhookReceiver, webhooks: Sinks, tmp_path: Path
) -> None:
    (secret := tmp_path / "secret").write_bytes(text.encode())
    await webhooks(WebhookSettings(url=receiver.url, secret_file=str(secret))).deliver(
        eviction_entries(1)
    )

    [post] = receiver.posts
    assert post.headers["webhook-signature"] == " ".join(signed(key, post) for key in keys)


async def test_new_secrets_and_tokens_count_from_the_next_request_on(
    receiver: WebhookReceiver, webhooks: Sinks, tmp_path: Path
) -> None:
    secret, token = tmp_path / "secret", tmp_path / "token"

    webhook = webhooks(
        WebhookSettings(url=receiver.url, secret_file=str(secret), token_file=str(token))
    )
    for word in ("one", "two"):
        secret.write_text(f"secret-{word}\n")
        token.write_text(f"token-{word}\n")
        await webhook.deliver(eviction_entries(1))

    first, second = receiver.posts
    assert first.headers["webhook-signature"] == signed(b"secret-one", first)
    assert second.headers["webhook-signature"] == signed(b"secret-two", second)
    assert first.headers["authorization"] == "Bearer token-one"
    assert second.headers["authorization"] == "Bearer token-two"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        pytest.param("secret_file", None, id="none"),
        pytest.param("secret_file", "\n \n", id="empty"),
        pytest.param("secret_file", "a\nb\nc", id="a third secret"),
        pytest.param("secret_file", "whsec_?", id="bad"),
        pytest.param("secret_file", "whsec_", id="half"),
        pytest.param("secret_file", "a" * 20_000, id="too long"),
        pytest.param("token_file", None, id="no token"),
        pytest.param("token_file", "a\nb", id="two tokens"),
        pytest.param("token_file", "ä", id="no ASCII"),
    ],
)
async def test_what_is_wrong_with_a_file_is_reported_and_nothing_is_sent_unsigned(
    field: str,
    text: str | None,
    golden: Golden,
    receiver: WebhookReceiver,
    webhooks: Sinks,
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    webhook = webhooks(WebhookSettings.model_validate({"url": receiver.url, field: str(path)}))

    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(eviction_entries(1))
    assert str(caught.value).startswith(golden().format(path))
    assert receiver.posts == []
