from reactive_desched.api.event import DATA_TYPES
from reactive_desched.model.event_types import TYPE_PREFIX, full_type, short_type, type_names


def test_every_type_of_event_is_made_of_what_it_is_called_in_short() -> None:
    assert [full_type(short_type(type_)) for type_ in DATA_TYPES] == list(DATA_TYPES)


def test_a_type_is_called_in_full_in_short_and_by_each_family() -> None:
    assert type_names(full_type("eviction.succeeded")) == [
        f"{TYPE_PREFIX}eviction.succeeded.v1",
        "eviction.succeeded",
        "eviction",
    ]
    assert type_names(full_type("a.b.c"))[1:] == ["a.b.c", "a", "a.b"]


def test_a_foreign_type_keeps_its_name() -> None:
    assert type_names("Ready") == ["Ready", "Ready"]
