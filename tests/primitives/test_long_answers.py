"""Many items are sorted in steps, none of which looks at many."""

import random
from collections.abc import Iterator

import pytest

from reactive_desched.primitives.long_answers import (
    MAX_AWAITED,
    PORTION,
    AnswerTakesLong,
    at_once,
    awaited,
    sorted_portions,
)


def test_items_come_in_their_order_and_no_step_looks_at_more_than_a_portion() -> None:
    items = [(number % 40, number) for number in random.Random(1).sample(range(950), 950)]
    looked_at: list[tuple[int, int]] = []

    def order(item: tuple[int, int]) -> tuple[int, int]:
        looked_at.append(item)
        return item

    found: list[tuple[int, int]] = []
    for portion in sorted_portions(items, order):
        assert max(len(looked_at), len(portion)) <= PORTION
        looked_at.clear()
        found += portion

    assert found == sorted(items)


def test_items_of_equal_rank_keep_their_order() -> None:
    items = [(number % 3, number) for number in range(350)]

    found = [each for portion in sorted_portions(items, lambda item: item[0]) for each in portion]

    assert found == sorted(items, key=lambda item: item[0])


def test_few_items_come_in_the_first_step() -> None:
    assert list(sorted_portions([3, 1, 2], lambda item: item)) == [[1, 2, 3]]
    assert list(sorted_portions([], lambda item: 0)) == []


class Question:
    """Takes so many answers of two steps each before its own is there."""

    def __init__(self, answers: int) -> None:
        self.left = answers
        self.steps = 0

    def ask(self) -> str:
        if self.left:
            self.left -= 1
            raise AnswerTakesLong(self._take())
        return "known"

    def _take(self) -> Iterator[None]:
        for _ in range(2):
            self.steps += 1
            yield


def test_what_an_answer_takes_is_taken_where_it_is_awaited() -> None:
    question = Question(3)

    assert at_once(awaited(question.ask)) == "known"
    assert question.steps == 6


def test_an_answer_is_not_awaited_for_ever() -> None:
    with pytest.raises(AnswerTakesLong):
        at_once(awaited(Question(MAX_AWAITED + 1).ask))
