"""What settings accept as types of event is what a sink is sent."""

import pytest
from pydantic import ValidationError

from reactive_desched.api.event import DATA
from reactive_desched.journal.records import Entry
from reactive_desched.model.event_types import PREFIX, short
from reactive_desched.policy.recording import Stdout
from reactive_desched.sinks.type_filter import Wanted
from tests.support.journals import some_events, write_journal


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """Records of every type that there is."""
    return write_journal(tmp_path_factory.mktemp("journal"), some_events(200))


def sent(records: list[Entry], word: str) -> set[str]:
    """Return the types of the records that a sink of this setting is sent."""
    wanted = Wanted(Stdout(types=(word,)).types)
    return {found.type for record in records if (found := wanted.summary(record)) is not None}


@pytest.mark.parametrize("type_", DATA)
def test_types_are_named_in_full_or_in_short(type_: str, records: list[Entry]) -> None:
    assert sent(records, type_) == {type_}
    assert sent(records, short(type_)) == {type_}


@pytest.mark.parametrize("family", sorted({short(type_).partition(".")[0] for type_ in DATA}))
def test_types_are_named_by_family(family: str, records: list[Entry]) -> None:
    assert sent(records, family) == {type_ for type_ in DATA if f"{PREFIX}{family}." in type_}


@pytest.mark.parametrize(
    "word",
    [
        "evict",
        "eviction.succeeded.v1",
        f"{PREFIX}eviction",
        f"{PREFIX}eviction.succeeded",
        f"{PREFIX}eviction.succeeded.v2",
    ],
)
def test_what_would_match_nothing_is_refused(word: str) -> None:
    with pytest.raises(ValidationError, match="no type of event is called"):
        Stdout(types=(word,))
