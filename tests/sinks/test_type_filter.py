"""What settings accept as types of event is what a sink is sent."""

import pytest
from pydantic import ValidationError

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.errors import ConfigError
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import check_types
from reactive_desched.model.event_types import TYPE_PREFIX, short_type
from reactive_desched.policy.settings.recording import StdoutSettings
from reactive_desched.sinks.type_filter import TypeFilter
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[JournalRecord]:
    """Records of every type that there is."""
    return write_journal(tmp_path_factory.mktemp("journal"), some_events(200))


def sent(records: list[JournalRecord], word: str) -> set[str]:
    """Return the types of the records that a sink of this setting is sent."""
    wanted = TypeFilter(StdoutSettings(types=(word,)).types)
    return {found.type for record in records if (found := wanted.match(record)) is not None}


@pytest.mark.parametrize("type_", DATA_TYPES)
def test_types_are_named_in_full_or_in_short(type_: str, records: list[JournalRecord]) -> None:
    assert sent(records, type_) == {type_}
    assert sent(records, short_type(type_)) == {type_}


@pytest.mark.parametrize(
    "family", sorted({short_type(type_).partition(".")[0] for type_ in DATA_TYPES})
)
def test_types_are_named_by_family(family: str, records: list[JournalRecord]) -> None:
    assert sent(records, family) == {
        type_ for type_ in DATA_TYPES if f"{TYPE_PREFIX}{family}." in type_
    }


@pytest.mark.parametrize(
    "word",
    [
        "evict",
        "eviction.succeeded.v1",
        f"{TYPE_PREFIX}eviction",
        f"{TYPE_PREFIX}eviction.succeeded",
        f"{TYPE_PREFIX}eviction.succeeded.v2",
    ],
)
def test_what_would_match_nothing_is_refused(word: str, golden: Golden) -> None:
    with pytest.raises(ValidationError) as caught:
        StdoutSettings(types=(word,))

    assert golden() in str(caught.value)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("evicton", "eviction"), ("decision.evct", "decision.evict"), ("Brake", "brake")],
)
def test_a_slip_is_answered_with_the_type_or_family_that_it_may_mean(slip: str, meant: str) -> None:
    with pytest.raises(ValidationError) as caught:
        StdoutSettings(types=(slip,))
    with pytest.raises(ConfigError) as refused:
        check_types((slip,), tuple(DATA_TYPES))

    (problem,) = caught.value.errors()[0]["ctx"]["error"].errors
    assert problem.hint == f"did you mean {meant}?"
    assert f"did you mean {meant}?" in str(refused.value)
