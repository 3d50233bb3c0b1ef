"""A record nested more deeply than can be read is refused, and holds up no other."""

import pytest

from reactive_desched.errors import EventRejected
from reactive_desched.journal.records import JournalRecord
from tests.support.kafka_way import KafkaPipeline

pytestmark = pytest.mark.anyio

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


async def test_it_goes_to_the_dead_letters(way: KafkaPipeline) -> None:
    with pytest.raises(EventRejected, match="no event"):
        await way.sink.deliver([JournalRecord(1, DEEP)])
    await way.sink.close()
