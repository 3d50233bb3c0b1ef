"""A record nested more deeply than can be read is refused, and holds up no other."""

import pytest

from reactive_desched.errors import EventRefused
from reactive_desched.journal.records import Entry
from tests.support.kafka_way import Way

pytestmark = pytest.mark.anyio

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


async def test_it_goes_to_the_dead_letters(way: Way) -> None:
    with pytest.raises(EventRefused, match="no event"):
        await way.sink.deliver([Entry(1, DEEP)])
    await way.sink.close()
