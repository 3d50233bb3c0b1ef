from email.utils import formatdate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.responses import (
    ApiResponse,
    ApiStatus,
    accepted_body,
    parse_status,
)

NOW = 1_800_000_000.0


def test_a_status_is_read_with_its_causes() -> None:
    status = parse_status(
        b'{"kind":"Status","metadata":{},"message":"no","reason":"TooManyRequests","code":429,'
        b'"details":{"causes":[{"reason":"DisruptionBudget","message":"needs 2"}],'
        b'"retryAfterSeconds":10}}'
    )
    assert (status.code, status.reason, status.message) == (429, "TooManyRequests", "no")
    assert [cause.reason for cause in status.causes] == ["DisruptionBudget"]
    assert status.retry_after_s == 10.0


@pytest.mark.parametrize("details", ["null", "{}", '{"causes":null}'])
def test_missing_details_are_no_causes(details: str) -> None:
    status = parse_status(b'{"code":500,"details":%b}' % details.encode())
    assert status.causes == []
    assert status.retry_after_s is None


def test_a_text_body_becomes_the_message_of_its_code() -> None:
    text = b"Too many requests, please try again later.\n"
    assert parse_status(text, 429) == ApiStatus(429, "", text.decode().strip())


@given(st.binary(max_size=2000), st.integers(200, 599))
def test_any_body_is_understood_by_its_code(body: bytes, code: int) -> None:
    status = parse_status(body, code)
    assert status.code == code
    assert len(status.message) <= 300


def test_a_status_of_the_wrong_shape_is_a_text() -> None:
    assert parse_status(b'{"code":"many"}', 500).message == '{"code":"many"}'


def test_a_deeply_nested_body_is_a_text() -> None:
    assert parse_status(b'{"details":' + b"[" * 100_000, 500).code == 500


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("1", 1.0),
        (" 30 ", 30.0),
        (formatdate(NOW + 45, usegmt=True), 45.0),
        (formatdate(NOW - 45, usegmt=True), None),
        ("0", None),
        ("1.5", None),
        ("-1", None),
        ("", None),
        ("9" * 400, 600.0),
    ],
)
def test_retry_after_is_seconds_or_a_date_in_the_future(text: str, wait: float | None) -> None:
    assert ApiResponse(429, {"Retry-After": text}, b"").retry_after_s(NOW) == wait


@given(st.text(max_size=60))
def test_no_retry_after_breaks_the_reading(text: str) -> None:
    wait = ApiResponse(429, {"Retry-After": text}, b"").retry_after_s(NOW)
    assert wait is None or 0 < wait <= 600


def test_the_header_wins_over_the_body() -> None:
    body = msgspec.json.encode({"details": {"retryAfterSeconds": 3}})
    assert ApiResponse(429, {"Retry-After": "7"}, body).retry_after_s(NOW) == 7.0
    assert ApiResponse(429, {}, body).retry_after_s(NOW) == 3.0


@pytest.mark.parametrize(
    ("code", "denied", "gone", "retryable"),
    [
        (403, True, False, False),
        (404, False, True, False),
        (409, False, False, True),
        (422, False, False, False),
        (500, False, False, True),
    ],
)
def test_a_refusal_says_whether_a_right_or_the_object_is_missing(
    code: int, *, denied: bool, gone: bool, retryable: bool
) -> None:
    with pytest.raises(RequestRejected) as raised:
        accepted_body(ApiResponse(code, {}, b"{}"), "node n1", (409,))
    error = raised.value
    assert (error.is_denied, error.is_gone, error.retryable) == (denied, gone, retryable)
    assert error.if_denied("give it") == ("give it" if denied else None)
