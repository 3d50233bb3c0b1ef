from reactive_desched.api.event import DATA
from reactive_desched.model.event_types import PREFIX, full, names_of, short


def test_every_type_of_event_is_made_of_what_it_is_called_in_short() -> None:
    assert [full(short(type_)) for type_ in DATA] == list(DATA)


def test_a_type_is_called_in_full_in_short_and_by_each_family() -> None:
    assert names_of(full("eviction.succeeded")) == [
        f"{PREFIX}eviction.succeeded.v1",
        "eviction.succeeded",
        "eviction",
    ]
    assert names_of(full("a.b.c"))[1:] == ["a.b.c", "a", "a.b"]


def test_a_type_of_somebody_else_is_called_as_it_is() -> None:
    assert names_of("Ready") == ["Ready", "Ready"]
