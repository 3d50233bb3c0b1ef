import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plan.input_objects import read_objects
from reactive_desched.plan.json_text import JsonText
from tests.support.golden import Golden

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def found(text: str) -> list[tuple[str, str, Any]]:
    """Return kind, version and content of every object of a text, none of which is a page."""
    pages: list[tuple[str, int | None]] = []
    every = read_objects(JsonText(text.encode(), "it"), lambda *page: pages.append(page))
    told = [(each.kind, each.api_version, json.loads(bytes(each.raw))) for each in every]
    assert pages == []
    return told


def expected(*things: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(thing["kind"], thing["apiVersion"], thing) for thing in things]


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "List", "items": [POD, NODE]}, id="a list, as v1 has it"
        ),
        pytest.param(
            {"apiVersion": "v1", "items": [POD, NODE], "kind": "List"}, id="as kubectl sorts it"
        ),
        pytest.param([POD, NODE], id="an array, as jq makes it"),
        pytest.param(
            {"kind": "List", "items": [{"kind": "List", "items": [POD]}, NODE]},
            id="a list in a list",
        ),
        pytest.param({"items": [POD, NODE]}, id="a list that does not say so"),
    ],
)
@pytest.mark.parametrize("indent", [None, 4], ids=["compact", "indented"])
def test_objects_are_found_in_whatever_they_are_wrapped(wrapped: Any, indent: int | None) -> None:
    assert found(json.dumps(wrapped, indent=indent)) == expected(POD, NODE)


@pytest.mark.parametrize("between", ["", "\n", "\r\n\n  "], ids=["nothing", "a line", "lines"])
def test_documents_may_stand_in_a_row(between: str) -> None:
    row = [POD, {"apiVersion": "v1", "kind": "List", "items": [NODE]}, POD]
    text = between.join(json.dumps(thing, indent=2) for thing in row)

    assert found(text) == expected(POD, NODE, POD)


@pytest.mark.parametrize("sort_keys", [False, True], ids=["the API's order", "keys sorted"])
def test_items_of_a_typed_list_have_the_kind_of_the_list(*, sort_keys: bool) -> None:
    item = {"metadata": {"name": "a"}}
    text = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [item]}, sort_keys=sort_keys)

    assert found(text) == [("Pod", "v1", item)]


@pytest.mark.parametrize(
    ("order", "kind", "version"),
    [
        pytest.param(("kind", "apiVersion", "metadata"), "Pod", "v1", id="as the API writes it"),
        pytest.param(("kind", "metadata", "apiVersion"), "Pod", "v1", id="in another order"),
        pytest.param(("metadata", "kind"), "Pod", "", id="no version"),
        pytest.param(("metadata",), "", "", id="nothing"),
    ],
)
def test_an_item_says_what_it_is_wherever_it_says_it(
    order: tuple[str, ...], kind: str, version: str
) -> None:
    item = {key: POD[key] for key in order}

    assert found(json.dumps({"kind": "List", "items": [item]})) == [(kind, version, item)]
    assert found(json.dumps(item)) == [(kind, version, item)]


def test_a_kind_whose_name_ends_in_list_is_no_list() -> None:
    thing = {"apiVersion": "net.example.com/v1", "kind": "AllowList", "spec": {"items": [1]}}

    assert found(json.dumps(thing)) == expected(thing)
    assert found(json.dumps({"kind": "List", "items": [thing]})) == expected(thing)


@pytest.mark.parametrize("items", [[], None], ids=["empty", "null"])
def test_an_empty_list_holds_nothing(items: Any) -> None:
    assert found(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items})) == []


def test_an_item_that_is_no_object_is_given_without_a_kind() -> None:
    assert found('{"kind": "List", "items": [7, null]}') == [("", "", 7), ("", "", None)]


def test_a_document_of_nothing_is_passed_over_and_a_bare_text_is_refused(golden: Golden) -> None:
    assert found("null null") == []
    with pytest.raises(ConfigError) as caught:
        found('"foo"')

    assert golden("no object") in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        found('"<html>a</html>"')

    assert golden("a page") in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "lacking"),
    [
        pytest.param({"continue": "abc", "remainingItemCount": 12}, 12, id="with a number"),
        pytest.param({"continue": "abc"}, None, id="without one"),
    ],
)
def test_a_list_that_is_one_page_of_several_is_reported(
    metadata: dict[str, Any], lacking: int | None
) -> None:
    text = json.dumps({"kind": "PodList", "metadata": metadata, "items": [{}]})
    pages: list[tuple[str, int | None]] = []
    every = list(read_objects(JsonText(text.encode(), "it"), lambda *page: pages.append(page)))

    assert [each.kind for each in every] == ["Pod"]
    assert pages == [("PodList", lacking)]


heads = st.dictionaries(st.sampled_from(["kind", "apiVersion", "spec"]), st.text() | st.none())


@given(st.lists(heads), st.sampled_from([None, 2]))
def test_what_an_item_says_is_what_json_says(
    items: list[dict[str, Any]], indent: int | None
) -> None:
    items = [item for item in items if not (item.get("kind") or "").endswith("List")]
    text = json.dumps({"kind": "List", "items": items}, indent=indent)

    named = [item for item in items if item.get("kind")]
    nameless = [item for item in items if not item.get("kind")]
    assert [(kind, content) for kind, _, content in found(text)] == [
        *((item["kind"], item) for item in named),
        *(("", item) for item in nameless),
    ]


@pytest.mark.parametrize(
    ("version", "kind", "flag"),
    [
        ("descheduler/v1alpha2", "DeschedulerPolicy", "--policy"),
        ("reactive-desched/v1alpha1", "ReactiveSettings", "--settings"),
        ("v1", "Config", "--kubeconfig"),
    ],
)
def test_a_document_that_another_flag_takes_is_refused_with_that_flag(
    version: str, kind: str, flag: str, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as caught:
        found(f'{{"apiVersion": "{version}", "kind": "{kind}"}}')

    assert golden(kind=kind, flag=flag) in str(caught.value)
    assert found(f'{{"apiVersion": "example.com/v1", "kind": "{kind}"}}') != []
