import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import RateLimited, Unreachable
from reactive_desched.kube.client.responses import ApiResponse, parse_status
from reactive_desched.kube.watch.resume import (
    StopReason,
    WatchEnd,
    end_from_error,
    end_from_response,
    end_from_status,
)
from tests.support.scripted_api import status

TOO_LARGE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}


def answer(code: int, reason: str = "", **details: object) -> ApiResponse:
    return ApiResponse(code, {}, msgspec.json.encode(status(reason, code, "because", **details)))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (400, StopReason.REJECTED),
        (401, StopReason.UNAUTHORIZED),
        (403, StopReason.DENIED),
        (404, StopReason.DENIED),
        (405, StopReason.DENIED),
        (410, StopReason.GONE),
        (422, StopReason.REJECTED),
        (429, StopReason.THROTTLED),
        (200, StopReason.BROKEN),
        (302, StopReason.BROKEN),
        (500, StopReason.BROKEN),
        (502, StopReason.BROKEN),
        (503, StopReason.THROTTLED),
        (504, StopReason.BROKEN),
        (520, StopReason.BROKEN),
    ],
)
def test_a_reply_is_classified_by_its_code(code: int, why: StopReason) -> None:
    assert end_from_response(answer(code), "list", 0).reason is why
    assert end_from_response(ApiResponse(code, {}, b"text"), "list", 0).reason is why


def test_a_version_the_server_has_not_reached_is_as_good_as_gone() -> None:
    assert (
        end_from_response(answer(504, "Timeout", **TOO_LARGE), "list", 0).reason is StopReason.GONE
    )


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
def test_an_expired_history_is_known_by_its_reason_too(reason: str) -> None:
    assert end_from_response(answer(400, reason), "list", 0).reason is StopReason.GONE


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (410, StopReason.GONE),
        (429, StopReason.THROTTLED),
        (500, StopReason.FAILED),
        (504, StopReason.FAILED),
        (0, StopReason.FAILED),
        (403, StopReason.DENIED),
    ],
)
def test_an_error_event_is_classified_by_its_code(code: int, why: StopReason) -> None:
    assert end_from_status(parse_status(answer(code).body), "watch").reason is why


def test_an_error_event_without_a_status_calls_for_a_new_list() -> None:
    assert end_from_status(None, "watch").reason is StopReason.FAILED


def test_no_reply_is_waited_out_and_our_own_limit_is_a_throttle() -> None:
    assert end_from_error(Unreachable("GET /x", "refused", sent=False)) == WatchEnd(
        StopReason.UNREACHABLE, "GET /x: refused"
    )
    assert end_from_error(RateLimited("full")).reason is StopReason.THROTTLED


@given(st.integers(100, 999), st.binary(max_size=300))
def test_every_reply_has_an_ending_that_names_the_call(code: int, body: bytes) -> None:
    ending = end_from_response(ApiResponse(code, {}, body), "list things", 0)
    assert ending.message.startswith(f"list things: {code}")
