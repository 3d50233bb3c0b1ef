"""Where a webhook may be, and what is told without repeating it."""

import pytest

from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes
from tests.support.policy_texts import load_settings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\nsinks:\n  webhook:\n"


def webhook(text: str) -> WebhookSettings:
    found = load_settings(f"{HEAD}    {text}\n", "s.yaml").sinks.webhook
    assert found is not None
    return found


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/in?tenant=7",
        "https://10.0.0.7:8443",
        "http://127.0.0.1:8080/in",
        "http://127.8.9.1/in",
        "http://[::1]:8080/in",
        "http://localhost:8080/in",
    ],
)
def test_a_webhook_is_reached_over_tls_or_is_on_this_machine(url: str) -> None:
    assert webhook(f'url: "{url}"').url == url


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("canary", id="a word"),
        pytest.param("ftp://u:canary@host/", id="scheme"),
        pytest.param("https:///canary", id="no host"),
        pytest.param("https://host:canary/", id="no port"),
        pytest.param("https://[canary/", id="half an address"),
        pytest.param("https://host/can ary", id="a space"),
        pytest.param("https://host/\\tcanary", id="a tab"),
        pytest.param("https://u:canary@host/", id="password"),
        pytest.param("https://canary@host/", id="user"),
        pytest.param("https://u:can/ary@host/", id="odd one"),
        pytest.param("https://host/#canary", id="fragment"),
        pytest.param("http://host/canary", id="in the clear"),
        pytest.param("http://10.0.0.7/canary", id="inside"),
        pytest.param("http://127.0.0.1.nip.io/canary", id="looks near"),
        pytest.param("http://localhost.host/canary", id="a longer name"),
    ],
)
def test_another_address_is_refused_with_its_place_and_never_repeated(
    url: str, golden: Golden
) -> None:
    with pytest.raises(PolicyErrors) as caught:
        webhook(f'url: "{url}"')

    (text,) = without_codes(caught.value)
    assert text.startswith("s.yaml:5:10: sinks.webhook.url: ")
    assert golden() in text
    assert "canary" not in text
    assert "can ary" not in text


def test_a_request_without_a_time_limit_is_refused(golden: Golden) -> None:
    with pytest.raises(PolicyErrors) as caught:
        webhook("url: https://host\n    timeout: 0s")

    assert golden() in str(caught.value)
