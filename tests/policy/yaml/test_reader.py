import json

import pytest

from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.policy.yaml.reader import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_VALUES,
    read_documents,
)
from reactive_desched.policy.yaml.text import MAX_TEXT_BYTES
from reactive_desched.policy.yaml.tree import (
    MappingNode,
    SourceMark,
    YamlNode,
    find,
    mark_of,
    to_plain,
)
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes


def only(text: str | bytes) -> YamlNode:
    (tree,) = read_documents(text, "p.yaml")
    return tree


def refusal(text: str | bytes) -> str:
    with pytest.raises(PolicyErrors) as caught:
        read_documents(text, "p.yaml")
    return "\n".join(without_codes(caught.value))


def test_every_key_and_item_keeps_its_place() -> None:
    tree = only("a: 1\nb:\n  - x\n  - {c: 2}\n")

    assert mark_of(tree, ("b",)) == SourceMark(2, 1)
    assert mark_of(tree, ("b", 0)) == SourceMark(3, 5)
    assert mark_of(tree, ("b", 1, "c")) == SourceMark(4, 6)


def test_a_missing_place_is_that_of_the_nearest_value_around_it() -> None:
    tree = only("a: 1\nb:\n  - x\n")

    assert mark_of(tree, ("b", 7, "name")) == SourceMark(2, 1)
    assert mark_of(tree, ("gone",)) == SourceMark(1, 1)


def test_quoted_words_stay_texts() -> None:
    assert to_plain(only("""[yes, "yes", 'yes', 5, "5"]""")) == [True, "yes", "yes", 5, "5"]


def test_keys_are_the_words_that_are_written() -> None:
    assert to_plain(only("{on: 1, 2: 2, no: 3}")) == {"on": 1, "2": 2, "no": 3}


def test_tags_say_what_a_word_is() -> None:
    tagged = "[!!str 5, !!int 5, !!bool yes, ! 5, !!float 2.5, !!null ~]"
    assert to_plain(only(tagged)) == ["5", 5, True, "5", 2.5, None]


def test_an_alias_stands_for_what_its_anchor_marks() -> None:
    assert to_plain(only("a: &x {k: 1}\nb: *x\n")) == {"a": {"k": 1}, "b": {"k": 1}}


def test_a_merge_key_brings_in_what_is_not_written() -> None:
    text = "base: &b {k: 1, l: 1}\nmore: &m {l: 2, m: 2}\nall: {<<: [*b, *m], k: 0}\n"
    tree = only(text)
    assert to_plain(find(tree, ("all",)) or tree) == {"k": 0, "l": 1, "m": 2}


def test_a_key_written_twice_is_kept_twice_and_the_first_counts() -> None:
    tree = only("a: 1\nb: 2\na: 3\n")
    assert isinstance(tree, MappingNode)
    assert [entry.key for entry in tree.entries] == ["a", "b", "a"]
    assert to_plain(tree) == {"a": 1, "b": 2}


def test_documents_are_distinguished_and_empty_ones_left_out() -> None:
    trees = read_documents("---\n# nothing\n---\na: 1\n---\n---\nb: 2\n...\n", "p.yaml")
    assert [to_plain(tree) for tree in trees] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("indentation", [None, 2, "\t"], ids=["one line", "spaces", "tabs"])
def test_json_is_read_as_it_is(indentation: str | int | None) -> None:
    value = {"a": [1, 2.5, None, True, "\U0001f600 \t/"], "b": {"c": "yes"}}
    assert to_plain(only(json.dumps(value, indent=indentation))) == value
    assert to_plain(only(json.dumps(value, indent=indentation, ensure_ascii=False))) == value


@pytest.mark.parametrize(
    "text",
    ["a: 1\t\nb: 2\n", "a: 1 \t# one\nb: 2\t", "a:\t1\nb: \t2\n", "a: 1\t\r\nb: 2\t\t\n"],
    ids=["after a value", "before a comment", "after a key", "before CRLF"],
)
def test_a_tab_that_means_nothing_does_not_matter(text: str) -> None:
    tree = only(text)
    assert to_plain(tree) == {"a": 1, "b": 2}
    assert mark_of(tree, ("b",)) == SourceMark(2, 1)


def test_a_tab_that_indents_is_refused(golden: Golden) -> None:
    assert refusal("a:\n\tb: 1\n").endswith(golden())


def test_a_megabyte_of_tabs_is_no_work() -> None:
    tabs = "\t" * (MAX_TEXT_BYTES - 20)
    assert to_plain(only(f"a: x{tabs}\nb: 2")) == {"a": "x", "b": 2}


def test_json_indented_with_tabs_keeps_its_places() -> None:
    assert mark_of(only('\t{\n\t\t"a": 1\n\t}\n\t'), ("a",)) == SourceMark(2, 3)


def test_bytes_are_utf_8_with_or_without_a_byte_order_mark() -> None:
    assert to_plain(only("a: ä".encode("utf-8-sig"))) == {"a": "ä"}
    assert to_plain(only("\ufeffa: ä")) == {"a": "ä"}
    assert mark_of(only("\ufeffa: ä"), ("a",)) == SourceMark(1, 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a: 1\nb: \xff\n", id="a byte"),
        pytest.param("a: 1".encode("utf-16"), id="UTF-16"),
        pytest.param(b"\x1f\x8b\x08\x00", id="gzip"),
        pytest.param(b"\x7fELF\xff\x00", id="a program"),
        "a: \x00",
        'a: "\\ud800"',
        "a: .inf",
        "a: !!int x",
        "a: !mine x",
        "!!python/object:os.system {}",
        "a: *x",
        "&a [*a]",
        "? [a]\n: b",
        "<<: 5",
        "a: {{ .Values.a }}",
        "a:\n\t- b",
        "a:\n  b: 1\n c: 2",
        "a:\n  b: 1\n  [...]\nc: 2",
        "a: b: c",
    ],
)
def test_what_cannot_be_read_is_reported_with_its_place(text: str | bytes, golden: Golden) -> None:
    assert refusal(text) == golden()


def test_an_error_inside_the_parser_is_a_problem_too() -> None:
    assert refusal("a: \ud800").startswith("p.yaml: cannot be read as YAML: ")


def test_an_escape_of_no_character_is_a_syntax_error() -> None:
    assert refusal('a: "\\UFFFFFFFF"').startswith("p.yaml:1:")


def test_an_anchor_does_not_reach_into_the_next_document() -> None:
    assert 'the alias "*x"' in refusal("a: &x 1\n---\nb: *x\n")


TOO_LARGE = "a policy is never that large: is this the file?"


class TestBounds:
    def test_a_text_may_have_one_mebibyte(self, golden: Golden) -> None:
        comment = b"#" * (MAX_TEXT_BYTES - 6)
        assert to_plain(only(b"a: 1\n" + comment + b"\n")) == {"a": 1}
        assert refusal(b"a: 1\n" + comment + b"\n\n") == golden()

    def test_nesting_ends_at_forty_levels(self, golden: Golden) -> None:
        assert to_plain(only("[" * MAX_DEPTH + "]" * MAX_DEPTH))
        told = refusal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
        assert told == golden(too_large=TOO_LARGE)
        assert "nested deeper than 40 levels" in refusal("[" * 500_000)

    def test_aliases_cannot_nest_deeper(self) -> None:
        steps = "".join(f"b{i}: &b{i} [*b{i - 1}]\n" for i in range(1, 60))
        assert "40 levels, aliases written out" in refusal("b0: &b0 [x]\n" + steps)

    def test_aliases_cannot_multiply_without_end(self) -> None:
        steps = "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 30))
        assert "20,000 values, aliases written out" in refusal("b0: &b0 [x]\n" + steps)

    def test_merge_keys_cannot_multiply_without_end(self) -> None:
        base = "base: &b {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\n"
        steps = "".join(f"t{i}: {{<<: *b}}\n" for i in range(30))
        assert "more than 20,000 keys merged in (<<)" in refusal(base + steps)

    def test_values_are_counted(self, golden: Golden) -> None:
        told = refusal("- a\n" * (MAX_VALUES + 100))
        assert told == golden(too_large=TOO_LARGE)

    def test_documents_are_counted(self, golden: Golden) -> None:
        told = refusal("--- a\n" * (MAX_DOCUMENTS + 1))
        assert told == golden()


@pytest.mark.parametrize(
    "text",
    [
        "a: *",
        "a: & b",
        "a: @b",
        "a: b: c",
        "a: [b",
        "a: {b: c",
        "a: 1\n b: 2",
        "a:\n  b: 1\n c: 2",
    ],
)
def test_what_is_no_yaml_comes_with_a_remedy(text: str, golden: Golden) -> None:
    assert refusal(text).endswith(f"; {golden()}")
