from reactive_desched.react.backoff import REMEMBERED_FAILURES, Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(5, 300)

    assert [backoff.next_wait_s("a") for _ in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]


def test_a_success_starts_over() -> None:
    backoff = Backoff(5, 300)
    backoff.next_wait_s("a")
    backoff.next_wait_s("a")
    backoff.forget("a")

    assert backoff.next_wait_s("a") == 5


def test_the_oldest_key_is_forgotten_at_the_bound() -> None:
    backoff = Backoff(5, 300)
    backoff.next_wait_s("old")
    for number in range(REMEMBERED_FAILURES):
        backoff.next_wait_s(number)

    assert backoff.next_wait_s("old") == 5
    assert backoff.next_wait_s(REMEMBERED_FAILURES - 1) == 10
