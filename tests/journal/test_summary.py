"""Which events a filter lets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.event import DATA, EVICTION_SUCCEEDED
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import (
    DataSummary,
    EndingSummary,
    Filter,
    OwnerSummary,
    Summary,
    WhoSummary,
    WhySummary,
    check_types,
)
from reactive_desched.model.event_types import PREFIX

REPLICA_SET = OwnerSummary("ReplicaSet", "web-6d4b", "uid-set")
DEPLOYMENT = OwnerSummary("Deployment", "web", "uid-top")
POD = WhoSummary("shop", "web-1", "uid-pod", "n1", (REPLICA_SET, DEPLOYMENT))


def told(
    type_: str = EVICTION_SUCCEEDED, who: WhoSummary = POD, plugin: str = "PodLifeTime"
) -> Summary:
    data = DataSummary(who=who, why=WhySummary(plugin), outcome=EndingSummary("evicted"))
    return Summary("id", type_, "2026-03-29T01:30:00Z", "7", data=data)


@pytest.mark.parametrize(
    "filter_",
    [
        pytest.param(Filter(), id="everything"),
        pytest.param(Filter(types=("eviction.succeeded",)), id="a type"),
        pytest.param(Filter(types=("eviction",)), id="its family"),
        pytest.param(Filter(types=(EVICTION_SUCCEEDED,)), id="the type in full"),
        pytest.param(Filter(namespaces=("bank", "shop")), id="one of two namespaces"),
        pytest.param(Filter(nodes=("n1",)), id="its node"),
        pytest.param(Filter(plugins=("PodLifeTime",)), id="the plugin"),
        pytest.param(Filter(outcomes=("evicted",)), id="what came of it"),
        pytest.param(Filter(pods=("web-1",)), id="the pod's name"),
        pytest.param(Filter(pods=("shop/web-1",)), id="its namespace and name"),
        pytest.param(Filter(pods=("uid-pod",)), id="its uid"),
        pytest.param(Filter(owners=("web-6d4b",)), id="an owner's name"),
        pytest.param(Filter(owners=("Deployment/web",)), id="the top owner's kind and name"),
        pytest.param(Filter(owners=("uid-top",)), id="an owner's uid"),
        pytest.param(Filter(types=("decision", "eviction"), nodes=("n1",)), id="two fields"),
    ],
)
def test_an_event_is_wanted_by_each_of_its_names(filter_: Filter) -> None:
    assert filter_.wants(told())


@pytest.mark.parametrize(
    "filter_",
    [
        pytest.param(Filter(types=("evict",)), id="half a family"),
        pytest.param(Filter(types=("succeeded",)), id="the end of a type"),
        pytest.param(Filter(types=("eviction.succeeded.v1",)), id="a type with its version"),
        pytest.param(Filter(namespaces=("bank",)), id="another namespace"),
        pytest.param(Filter(nodes=("shop",)), id="a name of another field"),
        pytest.param(Filter(pods=("bank/web-1",)), id="the name in another namespace"),
        pytest.param(Filter(owners=("ReplicaSet/web",)), id="one owner's kind, another's name"),
        pytest.param(Filter(types=("eviction",), nodes=("n2",)), id="one field of two"),
    ],
)
def test_an_event_is_not_wanted_for_less(filter_: Filter) -> None:
    assert not filter_.wants(told())


def test_what_is_about_no_pod_has_no_name_of_one() -> None:
    event = told(who=WhoSummary())

    assert not any(Filter(pods=(word,)).wants(event) for word in ("", "/"))


def test_a_type_of_several_parts_belongs_to_each_family_it_begins_with() -> None:
    event = told(type_=PREFIX + "node.drain.begun.v2")

    families = ("node", "node.drain", "node.drain.begun", "drain", "node.", "begun")
    assert [word for word in families if Filter(types=(word,)).wants(event)] == [
        "node",
        "node.drain",
        "node.drain.begun",
    ]


# A tiny world, so that generated words and events often meet.
words = st.lists(st.sampled_from(["a", "b", "a/b", "b/a", "a.b", ""]), max_size=2).map(tuple)
name = st.sampled_from(["a", "b", ""])
owners = st.lists(st.builds(OwnerSummary, name, name, name), max_size=2).map(tuple)
events = st.builds(
    told,
    type_=st.sampled_from(["a", "a.b", "a.b.v1", PREFIX + "a.b.v1", PREFIX + "b.v1"]),
    who=st.builds(WhoSummary, name, name, name, name, owners),
    plugin=name,
)
filters = st.builds(
    Filter, types=words, namespaces=words, owners=words, pods=words, nodes=words, plugins=words
)


def fits(word: str, field: str, event: Summary) -> bool:
    who = event.data.who
    match field:
        case "types":
            kind = event.kind
            return word in {event.type, kind} or kind.startswith(f"{word}.")
        case "owners":
            return any(word in {o.name, f"{o.kind}/{o.name}", o.uid} for o in who.owners)
        case "pods":
            return who.uid != "" and word in {who.name, f"{who.namespace}/{who.name}", who.uid}
        case "namespaces":
            return word == who.namespace
        case "nodes":
            return word == who.node
        case _:
            return word == event.data.why.plugin


@given(filters, events)
def test_of_each_field_that_is_asked_for_one_word_must_fit(filter_: Filter, event: Summary) -> None:
    fields = ("types", "namespaces", "owners", "pods", "nodes", "plugins")
    asked = {field: found for field in fields if (found := getattr(filter_, field))}

    assert filter_.wants(event) == all(
        any(fits(word, field, event) for word in found) for field, found in asked.items()
    )


def test_filters_with_the_same_words_are_equal_even_after_they_were_used() -> None:
    used, fresh = Filter(nodes=("n1",)), Filter(nodes=("n1",))
    used.wants(told())

    assert {used: "shared"}[fresh] == "shared"
    assert Filter(nodes=("n2",)) != fresh


@pytest.mark.parametrize(("filter_", "empty"), [(Filter(), True), (Filter(nodes=("n1",)), False)])
def test_only_a_filter_without_words_is_empty(filter_: Filter, *, empty: bool) -> None:
    assert filter_.is_empty == empty


@pytest.mark.parametrize("word", ["evicton", "evict", "succeeded"])
def test_an_unknown_type_is_refused_with_those_there_are(word: str) -> None:
    check_types(("eviction", "decision.defer", EVICTION_SUCCEEDED), tuple(DATA))

    with pytest.raises(ConfigError, match=rf"'{word}'; there are .*eviction\.succeeded"):
        check_types(("eviction", word), tuple(DATA))
