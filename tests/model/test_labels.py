"""Label selectors, as an object and as a text, select what apimachinery's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import (
    EVERYTHING,
    LabelSelector,
    Requirement,
    Selector,
    label_key_error,
    label_value_error,
    parse_selector,
)
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("requirement", "absent", "present"),
    [
        pytest.param(Requirement("k", "In", ("a", "b")), False, True, id="In"),
        pytest.param(Requirement("k", "In", ("b",)), False, False, id="In, another value"),
        pytest.param(Requirement("k", "NotIn", ("b",)), True, True, id="NotIn"),
        pytest.param(Requirement("k", "NotIn", ("a",)), True, False, id="NotIn, the value"),
        pytest.param(Requirement("k", "Exists"), False, True, id="Exists"),
        pytest.param(Requirement("k", "DoesNotExist"), True, False, id="DoesNotExist"),
        pytest.param(Requirement("k", "in", ("a",)), False, False, id="operators have their case"),
        pytest.param(Requirement("k", "Near", ("a",)), False, False, id="an unknown operator"),
    ],
)
def test_an_absent_label_and_a_present_one_match_so(
    requirement: Requirement, *, absent: bool, present: bool
) -> None:
    assert requirement.matches({"other": "a"}) is absent
    assert requirement.matches({"k": "a"}) is present


@pytest.mark.parametrize(
    ("operator", "values", "label", "matches"),
    [
        pytest.param("Gt", ("5",), "6", True, id="larger"),
        pytest.param("Gt", ("5",), "5", False, id="equal is not larger"),
        pytest.param("Gt", ("5",), "10", True, id="as numbers, not as texts"),
        pytest.param("Lt", ("5",), "-7", True, id="smaller"),
        pytest.param("Lt", ("5",), "5", False, id="equal is not smaller"),
        pytest.param("Gt", ("5",), "+6", True, id="a plus sign is read"),
        pytest.param("Gt", ("5",), "0006", True, id="so are leading zeros"),
        pytest.param("Gt", ("5",), "6.5", False, id="a fraction is no integer"),
        pytest.param("Gt", ("5",), "v6", False, id="nor is a word"),
        pytest.param("Gt", ("5",), "", False, id="nor is nothing"),
        pytest.param("Gt", ("5",), "٦", False, id="nor a digit of another script"),
        pytest.param("Gt", ("5",), "9223372036854775807", True, id="the largest int64"),
        pytest.param("Gt", ("5",), "9223372036854775808", False, id="beyond int64"),
        pytest.param("Gt", ("five",), "6", False, id="an own value that is no integer"),
        pytest.param("Gt", ("5", "6"), "7", False, id="two own values"),
        pytest.param("Gt", (), "7", False, id="no own value"),
        pytest.param("Gt", ("5",), None, False, id="an absent label"),
    ],
)
def test_gt_and_lt_compare_int64(
    operator: str, values: tuple[str, ...], label: str | None, *, matches: bool
) -> None:
    labels = {} if label is None else {"k": label}

    assert Requirement("k", operator, values).matches(labels) is matches


# --- the object form ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(LabelSelector(), True, id="an empty selector matches everything"),
        pytest.param(LabelSelector({"app": "web"}), True, id="an equal label"),
        pytest.param(LabelSelector({"app": "db"}), False, id="a different one"),
        pytest.param(LabelSelector({"app": "web", "tier": "x"}), False, id="all labels must equal"),
        pytest.param(
            LabelSelector({"app": "web"}, (Requirement("tier", "Exists"),)),
            False,
            id="labels and expressions must both hold",
        ),
        pytest.param(
            LabelSelector({"app": "web"}, (Requirement("tier", "NotIn", ("x",)),)),
            True,
            id="and do here",
        ),
        pytest.param(
            LabelSelector({}, (Requirement("app", "Exists"),)), True, id="an expression alone"
        ),
        pytest.param(LabelSelector({"absent": ""}), False, id="an absent label is not empty"),
    ],
)
def test_every_part_of_a_label_selector_must_hold(
    selector: LabelSelector, *, matches: bool
) -> None:
    assert selector.matches({"app": "web"}) is matches
    assert selector.is_empty is (selector == LabelSelector())


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(LabelSelector({"a b": "c"}), id="a key"),
        pytest.param(LabelSelector({"a": "b c"}), id="a value"),
        pytest.param(LabelSelector({}, (Requirement("a", "In"),)), id="In of nothing"),
        pytest.param(LabelSelector({}, (Requirement("a", "Exists", ("b",)),)), id="Exists of b"),
        pytest.param(LabelSelector({}, (Requirement("a", "Gt", ("1",)),)), id="Gt"),
        pytest.param(LabelSelector({}, (Requirement("a", "Near"),)), id="unknown"),
    ],
)
def test_an_invalid_label_selector_says_what_is_wrong(
    selector: LabelSelector, golden: Golden
) -> None:
    (found,) = selector.validation_errors()

    assert golden() in found


def test_a_valid_label_selector_has_no_problems() -> None:
    expressions = (Requirement("a", "In", ("", "b")), Requirement("c.io/d", "DoesNotExist"))

    assert LabelSelector({"app": "web", "x": ""}, expressions).validation_errors() == []


# --- keys and values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        pytest.param("app", True, id="a name"),
        pytest.param("App_1.x-y", True, id="with other characters inside"),
        pytest.param("a" * 63, True, id="63 characters"),
        pytest.param("a" * 64, False, id="64 characters"),
        pytest.param("example.com/app", True, id="a prefix"),
        pytest.param("a.b-c.d/x", True, id="a prefix of labels"),
        pytest.param(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/x", True, id="253 in prefix"),
        pytest.param(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/x", False, id="254 in prefix"),
        pytest.param("", False, id="nothing"),
        pytest.param("-a", False, id="a hyphen first"),
        pytest.param("a.", False, id="a dot last"),
        pytest.param("/a", False, id="an empty prefix"),
        pytest.param("a/", False, id="an empty name"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("Example.com/a", False, id="an upper-case prefix"),
        pytest.param("a b", False, id="a space"),
        pytest.param("a\n", False, id="a newline"),
        pytest.param("é", False, id="a letter beyond ASCII"),
    ],
)
def test_a_label_key_is_a_name_with_an_optional_dns_prefix(key: str, *, valid: bool) -> None:
    assert (label_key_error(key) is None) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param("v1.2_3-x", True, id="a word"),
        pytest.param("a" * 63, True, id="63 characters"),
        pytest.param("a" * 64, False, id="64 characters"),
        pytest.param("a/b", False, id="a slash"),
        pytest.param("_a", False, id="an underscore first"),
        pytest.param("-1", False, id="a minus first"),
    ],
)
def test_a_label_value_is_empty_or_a_name(value: str, *, valid: bool) -> None:
    assert (label_value_error(value) is None) is valid


# --- the text form -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        pytest.param("", [], id="nothing matches everything"),
        pytest.param(" \t ", [], id="so does space alone"),
        pytest.param("x=a", [("x", "In", "a")], id="equals"),
        pytest.param("x==a", [("x", "In", "a")], id="equals, doubled"),
        pytest.param("x!=a", [("x", "NotIn", "a")], id="differs"),
        pytest.param("x=", [("x", "In", "")], id="equals nothing"),
        pytest.param("x=,z= ", [("x", "In", ""), ("z", "In", "")], id="nothing twice"),
        pytest.param("x", [("x", "Exists")], id="exists"),
        pytest.param("!x", [("x", "DoesNotExist")], id="does not exist"),
        pytest.param(" ! x , y ", [("x", "DoesNotExist"), ("y", "Exists")], id="space between"),
        pytest.param("x in (b,a,b)", [("x", "In", "a", "b")], id="in a set"),
        pytest.param("x\tnotin\n( a )", [("x", "NotIn", "a")], id="not in a set"),
        pytest.param("x in (a,)", [("x", "In", "", "a")], id="a set with nothing in it too"),
        pytest.param("x in ()", [("x", "In", "")], id="a set of nothing"),
        pytest.param(
            "x notin (c,,d),bar,z in (),w",
            [("x", "NotIn", "", "c", "d"), ("bar", "Exists"), ("z", "In", ""), ("w", "Exists")],
            id="many at once",
        ),
        pytest.param("x>1,y<7", [("x", "Gt", "1"), ("y", "Lt", "7")], id="greater and less"),
        pytest.param("x=in", [("x", "In", "in")], id="a value called in"),
        pytest.param("in in (in)", [("in", "In", "in")], id="a key called in"),
        pytest.param("!notin,in", [("notin", "DoesNotExist"), ("in", "Exists")], id="only keys"),
        pytest.param("a.io/b=c", [("a.io/b", "In", "c")], id="a key with a prefix"),
    ],
)
def test_a_selector_text_is_read_as_these_requirements(
    text: str, requirements: list[tuple[str, ...]]
) -> None:
    expected = tuple(Requirement(key, op, tuple(values)) for key, op, *values in requirements)

    assert parse_selector(text) == Selector(expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",", id="a comma alone"),
        pytest.param("x,", id="a comma last"),
        pytest.param(",x", id="a comma first"),
        pytest.param("x=a||y=b", id="other signs"),
        pytest.param("x==a==b", id="equal twice"),
        pytest.param("!x=a", id="not and equals"),
        pytest.param("x<a", id="less than a word"),
        pytest.param("x>", id="greater than nothing"),
        pytest.param("x>-1", id="greater than what is no label value"),
        pytest.param("x>9223372036854775808", id="greater than int64"),
        pytest.param("x in", id="in without a set"),
        pytest.param("x in a", id="in without a bracket"),
        pytest.param("x in (a", id="a bracket not closed"),
        pytest.param("x in (a b)", id="values without a comma"),
        pytest.param("x in (a))", id="a bracket too many"),
        pytest.param("x y", id="two keys without a comma"),
        pytest.param("(x)", id="a set alone"),
        pytest.param("=a", id="no key"),
        pytest.param("!", id="not alone"),
        pytest.param("x=a/b", id="a value with a slash"),
        pytest.param("-x", id="a key that is none"),
        pytest.param("x in (" + "a" * 64 + ")", id="a value too long"),
        pytest.param("x=a\u00a0", id="a space that is none to Go"),
    ],
)
def test_what_is_no_selector_is_refused_by_name(text: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)

    assert repr(text) in str(refused.value)


# --- properties --------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b", "in", "notin", "example.com/x", "A_1.z"])
values = st.sampled_from(["", "a", "b", "in", "5", "007"])
value_sets = st.sets(values, min_size=1).map(lambda chosen: tuple(sorted(chosen)))
requirements = (
    st.builds(Requirement, keys, st.sampled_from(["In", "NotIn"]), value_sets)
    | st.builds(Requirement, keys, st.sampled_from(["Exists", "DoesNotExist"]))
    | st.builds(Requirement, keys, st.sampled_from(["Gt", "Lt"]), st.sampled_from([("5",), ("7",)]))
)
selectors = st.lists(requirements, max_size=4).map(tuple).map(Selector)
label_sets = st.dictionaries(keys, values, max_size=4)


@given(selectors)
def test_a_selector_survives_being_written_and_read(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@given(st.text(max_size=20) | st.text(" \tab1=!,()<>in/.", max_size=20))
def test_a_text_is_a_selector_or_refused_as_one(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert [r.validation_error() for r in selector.requirements] == [None] * len(
        selector.requirements
    )
    assert parse_selector(str(selector)) == selector


@given(requirements, label_sets)
def test_not_in_and_does_not_exist_are_the_opposites_of_in_and_exists(
    requirement: Requirement, labels: dict[str, str]
) -> None:
    opposite = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    if requirement.operator in opposite:
        other = Requirement(requirement.key, opposite[requirement.operator], requirement.values)

        assert requirement.matches(labels) is not other.matches(labels)


@given(selectors, label_sets)
def test_a_selector_matches_when_each_requirement_does(
    selector: Selector, labels: dict[str, str]
) -> None:
    each = [requirement.matches(labels) for requirement in selector.requirements]

    assert selector.matches(labels) is all(each)
    assert LabelSelector({}, selector.requirements).matches(labels) is all(each)
    assert EVERYTHING.matches(labels)


@given(label_sets, label_sets)
def test_match_labels_mean_the_same_as_equality_requirements(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    text = ",".join(f"{key}={value}" for key, value in wanted.items())

    assert LabelSelector(wanted).matches(labels) is parse_selector(text).matches(labels)
