import pytest

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.receiver import WebhookReceiver

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_a_success_of_any_kind_will_do(
    status: int, receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    receiver.answer(status)
    assert await webhook.deliver(eviction_entries(1)) == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_an_event_that_is_found_fault_with_is_refused_for_good(
    status: int, receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    receiver.answer(status)
    with pytest.raises(EventRejected, match=rf"http://127\.0\.0\.1:\d+ answered {status} \w"):
        await webhook.deliver(eviction_entries(1))


@pytest.mark.parametrize(
    "status",
    [*(408, 425, 429, 500, 502, 503, 504, 409, 599), *(301, 304, 401, 403, 404, 405, 410)],
)
async def test_everything_else_is_tried_again_and_says_what_to_look_at(
    status: int, receiver: WebhookReceiver, webhook: WebhookSink, golden: Golden
) -> None:
    receiver.answer(status)
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(eviction_entries(1))
    assert str(caught.value) == golden(origin=receiver.url.partition("/in")[0])
    assert caught.value.retry_after_s is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("120", 120.0, id="seconds"),
        pytest.param("Mon, 21 Sep 2026 14:14:20 GMT", 59.3, id="a date"),
        pytest.param("Mon, 21 Sep 2026 14:14:20 -0000", 59.3, id="a date without a zone"),
        pytest.param("Mon, 21 Sep 2026 16:14:20 +0200", 59.3, id="a date of another zone"),
        pytest.param("Mon, 21 Sep 2020 14:14:20 GMT", 0.0, id="a date long past"),
        pytest.param("9" * 400, 999_999_999.0, id="for ever"),
        pytest.param("soon", None, id="neither"),
        pytest.param("-5", None, id="before now"),
    ],
)
async def test_it_is_tried_again_when_the_receiver_says(
    text: str, seconds: float | None, receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    receiver.answer(503, Retry_After=text)
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(eviction_entries(1))
    assert caught.value.retry_after_s == (None if seconds is None else pytest.approx(seconds))
