"""The queue of one token bucket: places, and when the token of each comes."""

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.bucket_queue import GIVES_UP_AFTER_S, BucketQueue
from reactive_desched.primitives.token_bucket import MAX_WAIT_S, TokenBucket, TokenRate


def empty_bucket(per_second: float = 1 / 3, burst: int = 1) -> TokenBucket:
    bucket = TokenBucket(TokenRate(per_second, burst), 0.0)
    bucket.empty(0.0)
    return bucket


def test_each_caller_has_its_place_and_the_time_of_its_own_token() -> None:
    bucket, queue = empty_bucket(), BucketQueue()

    waiting = [queue.wait(f"p{number}", bucket, 0.0) for number in range(50)]

    assert [each.place for each in waiting] == list(range(1, 51))
    assert [round(each.at) for each in waiting] == [3 * (number + 1) for number in range(50)]
    assert {round(each.look_at) for each in waiting[20:]} == {round(MAX_WAIT_S)}


def test_a_caller_that_asks_again_keeps_its_place_and_one_that_has_its_token_leaves() -> None:
    bucket, queue = empty_bucket(), BucketQueue()
    for name in "abc":
        queue.wait(name, bucket, 0.0)

    queue.leave("a")

    again = queue.wait("c", bucket, 0.0)
    assert (again.place, again.of) == (2, 2)
    assert queue.wait("a", bucket, 0.0).place == 3


def test_to_look_takes_no_place() -> None:
    bucket, queue = empty_bucket(), BucketQueue()
    queue.wait("a", bucket, 0.0)

    place = queue.look("b", bucket, 0.0)

    assert (place.place, place.of, round(place.at)) == (2, 2, 6)
    assert len(queue) == 1
    assert queue.look("a", bucket, 0.0).place == 1


def test_one_that_does_not_ask_again_loses_its_place() -> None:
    bucket, queue = empty_bucket(), BucketQueue()
    gone = queue.wait("gone", bucket, 0.0)
    queue.wait("stays", bucket, 0.0)
    late = gone.look_at + GIVES_UP_AFTER_S

    queue.wait("stays", bucket, late - 1)
    place = queue.wait("stays", bucket, late + 0.1)

    assert (place.place, place.of) == (1, 1)


@given(st.integers(1, 4), st.integers(1, 40), st.sampled_from([0.01, 1 / 3, 2.0]))
def test_every_caller_has_its_token_when_it_was_said_and_in_order(
    burst: int, callers: int, per_second: float
) -> None:
    bucket, queue = empty_bucket(per_second, burst), BucketQueue()
    waiting = {f"p{number}": queue.wait(f"p{number}", bucket, 0.0) for number in range(callers)}
    said = {name: place.at for name, place in waiting.items()}
    had: dict[str, float] = {}
    while waiting:
        name = min(waiting, key=lambda each: (waiting[each].look_at, waiting[each].place))
        now = waiting.pop(name).look_at
        if bucket.has_token(now):
            queue.leave(name)
            bucket.reserve(now)
            bucket.release(now, consumed=True)
            had[name] = now
        else:
            waiting[name] = queue.wait(name, bucket, now)

    assert list(had) == [f"p{number}" for number in range(callers)]
    assert all(abs(had[name] - said[name]) < 0.01 for name in had)
