"""Texts of foreign objects are cut to a length, and names that differ still differ."""

from reactive_desched.primitives.bounded_text import MAX_NAME_CHARS, bounded_name, truncate


def test_a_text_is_cut_with_a_mark_that_says_how_much_is_left_out() -> None:
    assert truncate("x" * 10, 10) == "x" * 10
    assert truncate("x" * 13, 10) == "xxxxxxxxxx… (3 more characters)"


def test_a_name_that_the_api_server_takes_by_its_rules_stays_as_it_is() -> None:
    name = "n" * MAX_NAME_CHARS

    assert bounded_name(name) is name


def test_long_names_are_cut_and_are_the_same_only_where_all_of_them_is() -> None:
    first, second = "n" * 300_000 + "a", "n" * 300_000 + "b"

    assert len(bounded_name(first)) <= MAX_NAME_CHARS
    assert "(300001 characters" in bounded_name(first)
    assert bounded_name(first) == bounded_name("n" * 300_000 + "a")
    assert bounded_name(first) != bounded_name(second)
    assert bounded_name(bounded_name(first)) == bounded_name(first)


def test_a_long_name_that_is_no_unicode_is_cut_too() -> None:
    assert len(bounded_name("\ud800" * 1000)) <= MAX_NAME_CHARS


def test_what_a_terminal_takes_for_a_command_is_escaped() -> None:
    hostile = "red\x1b[31m\x9b2J\u202e\n\ud800"

    assert bounded_name(hostile) == "red\\x1b[31m\\x9b2J\\u202e\\n\\ud800"
    assert bounded_name("\x1b" * 300_000).isprintable()
    assert len(bounded_name("\x1b" * 512)) <= MAX_NAME_CHARS
    assert bounded_name("\x1b" * 511) != bounded_name("\x1b" * 512)
    assert bounded_name("ключ-1") == "ключ-1"
