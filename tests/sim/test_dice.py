"""Chance that depends on the object it is about: what else is drawn changes nothing."""

from random import Random

from reactive_desched.sim.dice import ObjectDice, dice_for


def test_the_draw_for_an_object_does_not_depend_on_draws_for_others() -> None:
    alone, beside = ObjectDice(7), ObjectDice(7)
    dice_for(beside, "start", "default", "other").random()

    assert (
        dice_for(alone, "start", "default", "web").random()
        == dice_for(beside, "start", "default", "web").random()
    )


def test_the_next_draw_for_the_same_object_is_another_one() -> None:
    dice = ObjectDice(7)

    first, second = (dice_for(dice, "start", "default", "web").random() for _ in range(2))

    assert first != second


def test_another_seed_is_other_luck() -> None:
    seven, eight = (dice_for(ObjectDice(seed), "start", "web").random() for seed in (7, 8))

    assert seven != eight


def test_one_stream_of_draws_is_drawn_in_turn_for_all_objects() -> None:
    stream, same = Random(7), Random(7)

    drawn = [dice_for(stream, "start", name).random() for name in ("web", "api")]

    assert drawn == [same.random(), same.random()]
