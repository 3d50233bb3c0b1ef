import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import Saturated, Unreachable
from reactive_desched.kube.client.responses import Answer, parse_status
from reactive_desched.kube.watch.watch_end import End, Ending, of_answer, of_error, of_status
from tests.support.scripted_api import status

TOO_LARGE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}


def answer(code: int, reason: str = "", **details: object) -> Answer:
    return Answer(code, {}, msgspec.json.encode(status(reason, code, "because", **details)))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (400, End.REJECTED),
        (401, End.UNKNOWN_CALLER),
        (403, End.DENIED),
        (404, End.DENIED),
        (405, End.DENIED),
        (410, End.GONE),
        (422, End.REJECTED),
        (429, End.THROTTLED),
        (200, End.BROKEN),
        (302, End.BROKEN),
        (500, End.BROKEN),
        (502, End.BROKEN),
        (503, End.THROTTLED),
        (504, End.BROKEN),
        (520, End.BROKEN),
    ],
)
def test_a_reply_is_told_apart_by_its_code(code: int, why: End) -> None:
    assert of_answer(answer(code), "list", 0).why is why
    assert of_answer(Answer(code, {}, b"text"), "list", 0).why is why


def test_a_version_the_server_has_not_reached_is_as_good_as_gone() -> None:
    assert of_answer(answer(504, "Timeout", **TOO_LARGE), "list", 0).why is End.GONE


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
def test_an_expired_history_is_known_by_its_reason_too(reason: str) -> None:
    assert of_answer(answer(400, reason), "list", 0).why is End.GONE


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (410, End.GONE),
        (429, End.THROTTLED),
        (500, End.FAILED),
        (504, End.FAILED),
        (0, End.FAILED),
        (403, End.DENIED),
    ],
)
def test_an_error_event_is_told_apart_by_its_code(code: int, why: End) -> None:
    assert of_status(parse_status(answer(code).body), "watch").why is why


def test_an_error_event_without_a_status_calls_for_a_new_list() -> None:
    assert of_status(None, "watch").why is End.FAILED


def test_no_reply_is_waited_out_and_our_own_limit_is_a_throttle() -> None:
    assert of_error(Unreachable("GET /x", "refused", sent=False)) == Ending(
        End.UNREACHABLE, "GET /x: refused"
    )
    assert of_error(Saturated("full")).why is End.THROTTLED


@given(st.integers(100, 999), st.binary(max_size=300))
def test_every_reply_has_an_ending_that_names_the_call(code: int, body: bytes) -> None:
    ending = of_answer(Answer(code, {}, body), "list things", 0)
    assert ending.detail.startswith(f"list things: {code}")
