"""Which events a filter lets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.event import DATA_TYPES, EVICTION_SUCCEEDED
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import (
    DataSummary,
    EventFilter,
    EventSummary,
    FindingSummary,
    OutcomeSummary,
    OwnerSummary,
    PodSummary,
    check_types,
)
from reactive_desched.model.event_types import TYPE_PREFIX

REPLICA_SET = OwnerSummary("ReplicaSet", "web-6d4b", "uid-set")
DEPLOYMENT = OwnerSummary("Deployment", "web", "uid-top")
POD = PodSummary("shop", "web-1", "uid-pod", "n1", (REPLICA_SET, DEPLOYMENT))


def told(
    type_: str = EVICTION_SUCCEEDED, who: PodSummary = POD, plugin: str = "PodLifeTime"
) -> EventSummary:
    data = DataSummary(
        who=who, why=FindingSummary(plugin), outcome=OutcomeSummary("evicted", "EvictionAccepted")
    )
    return EventSummary("id", type_, "2026-03-29T01:30:00Z", "7", data=data)


@pytest.mark.parametrize(
    "filter_",
    [
        pytest.param(EventFilter(), id="everything"),
        pytest.param(EventFilter(types=("eviction.succeeded",)), id="a type"),
        pytest.param(EventFilter(types=("eviction",)), id="its family"),
        pytest.param(EventFilter(types=(EVICTION_SUCCEEDED,)), id="the type in full"),
        pytest.param(EventFilter(namespaces=("bank", "shop")), id="one of two namespaces"),
        pytest.param(EventFilter(nodes=("n1",)), id="its node"),
        pytest.param(EventFilter(plugins=("PodLifeTime",)), id="the plugin"),
        pytest.param(EventFilter(outcomes=("evicted",)), id="what came of it"),
        pytest.param(EventFilter(reasons=("EvictionAccepted",)), id="the code of its reason"),
        pytest.param(EventFilter(pods=("web-1",)), id="the pod's name"),
        pytest.param(EventFilter(pods=("shop/web-1",)), id="its namespace and name"),
        pytest.param(EventFilter(pods=("uid-pod",)), id="its uid"),
        pytest.param(EventFilter(owners=("web-6d4b",)), id="an owner's name"),
        pytest.param(EventFilter(owners=("Deployment/web",)), id="the top owner's kind and name"),
        pytest.param(EventFilter(owners=("uid-top",)), id="an owner's uid"),
        pytest.param(EventFilter(owners=("Deployment shop/web",)), id="as texts name an owner"),
        pytest.param(EventFilter(owners=("shop/Deployment/web",)), id="an owner's key"),
        pytest.param(EventFilter(owners=("Deployment sh*/w*",)), id="a pattern of such a name"),
        pytest.param(EventFilter(types=("decision", "eviction"), nodes=("n1",)), id="two fields"),
    ],
)
def test_an_event_is_wanted_by_each_of_its_names(filter_: EventFilter) -> None:
    assert filter_.matches(told())


@pytest.mark.parametrize(
    "filter_",
    [
        pytest.param(EventFilter(types=("evict",)), id="half a family"),
        pytest.param(EventFilter(types=("succeeded",)), id="the end of a type"),
        pytest.param(EventFilter(types=("eviction.succeeded.v1",)), id="a type with its version"),
        pytest.param(EventFilter(namespaces=("bank",)), id="another namespace"),
        pytest.param(EventFilter(nodes=("shop",)), id="a name of another field"),
        pytest.param(EventFilter(pods=("bank/web-1",)), id="the name in another namespace"),
        pytest.param(
            EventFilter(owners=("ReplicaSet/web",)), id="one owner's kind, another's name"
        ),
        pytest.param(EventFilter(types=("eviction",), nodes=("n2",)), id="one field of two"),
        pytest.param(EventFilter(owners=("Deployment bank/web",)), id="an owner elsewhere"),
        pytest.param(EventFilter(owners=("shop/*",)), id="a namespace that looks like a kind"),
        pytest.param(EventFilter(owners=("sh*",)), id="the start of a namespace"),
    ],
)
def test_an_event_is_not_wanted_for_less(filter_: EventFilter) -> None:
    assert not filter_.matches(told())


def test_what_is_about_no_pod_has_no_name_of_one() -> None:
    event = told(who=PodSummary())

    assert not any(EventFilter(pods=(word,)).matches(event) for word in ("", "/"))


def test_a_type_of_several_parts_belongs_to_each_family_it_begins_with() -> None:
    event = told(type_=TYPE_PREFIX + "node.drain.begun.v2")

    families = ("node", "node.drain", "node.drain.begun", "drain", "node.", "begun")
    assert [word for word in families if EventFilter(types=(word,)).matches(event)] == [
        "node",
        "node.drain",
        "node.drain.begun",
    ]


# A tiny world, so that generated words and events often meet.
words = st.lists(
    st.sampled_from(["a", "b", "a/b", "b/a", "a.b", "", "a/b/a", "b a/b", "/a/b"]), max_size=2
).map(tuple)
name = st.sampled_from(["a", "b", ""])
owners = st.lists(st.builds(OwnerSummary, name, name, name), max_size=2).map(tuple)
events = st.builds(
    told,
    type_=st.sampled_from(["a", "a.b", "a.b.v1", TYPE_PREFIX + "a.b.v1", TYPE_PREFIX + "b.v1"]),
    who=st.builds(PodSummary, name, name, name, name, owners),
    plugin=name,
)
filters = st.builds(
    EventFilter, types=words, namespaces=words, owners=words, pods=words, nodes=words, plugins=words
)


def fits(word: str, field: str, event: EventSummary) -> bool:
    who = event.data.who
    match field:
        case "types":
            kind = event.kind
            return word in {event.type, kind} or kind.startswith(f"{word}.")
        case "owners":
            space = who.namespace
            return any(
                word in {o.name, f"{o.kind}/{o.name}", o.uid, f"{space}/{o.kind}/{o.name}"}
                or (word == f"{o.kind} {space}/{o.name}" and all((o.kind, space, o.name)))
                for o in who.owners
            )
        case "pods":
            return who.uid != "" and word in {who.name, f"{who.namespace}/{who.name}", who.uid}
        case "namespaces":
            return word == who.namespace
        case "nodes":
            return word == who.node
        case _:
            return word == event.data.why.plugin


@given(filters, events)
def test_of_each_field_that_is_asked_for_one_word_must_fit(
    filter_: EventFilter, event: EventSummary
) -> None:
    fields = ("types", "namespaces", "owners", "pods", "nodes", "plugins")
    asked = {field: found for field in fields if (found := getattr(filter_, field))}

    assert filter_.matches(event) == all(
        any(fits(word, field, event) for word in found) for field, found in asked.items()
    )


def test_filters_with_the_same_words_are_equal_even_after_they_were_used() -> None:
    used, fresh = EventFilter(nodes=("n1",)), EventFilter(nodes=("n1",))
    used.matches(told())

    assert {used: "shared"}[fresh] == "shared"
    assert EventFilter(nodes=("n2",)) != fresh


@pytest.mark.parametrize(
    ("filter_", "empty"), [(EventFilter(), True), (EventFilter(nodes=("n1",)), False)]
)
def test_only_a_filter_without_words_is_empty(filter_: EventFilter, *, empty: bool) -> None:
    assert filter_.is_empty == empty


@pytest.mark.parametrize("word", ["evicton", "evict", "succeeded"])
def test_an_unknown_type_is_refused_with_those_there_are(word: str) -> None:
    check_types(("eviction", "decision.defer", EVICTION_SUCCEEDED), tuple(DATA_TYPES))

    with pytest.raises(ConfigError, match=rf'type "{word}" is unknown; .*eviction\.succeeded'):
        check_types(("eviction", word), tuple(DATA_TYPES))
