"""The addresses that brokers advertise are tried, and those that lead nowhere are named."""

import socket

import pytest

from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka import error_hints
from reactive_desched.sinks.kafka.advertised import (
    BrokerAddress,
    UnreachableBroker,
    find_unreachable,
)
from tests.support.golden import Golden
from tests.support.ports import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

KAFKA = KafkaSettings(brokers=("kafka:9092",))


async def test_a_broker_that_takes_connections_is_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await find_unreachable([BrokerAddress(1, *server.getsockname())]) == []


@pytest.mark.parametrize("host", ["kafka-0.nowhere.invalid", "kafka..cluster", "a" * 300])
async def test_a_name_that_cannot_be_resolved_differs_from_an_address_without_a_listener(
    host: str,
) -> None:
    port = free_port()
    unnamed, silent = await find_unreachable(
        [BrokerAddress(1, host, 9092), BrokerAddress(2, "127.0.0.1", port)]
    )
    assert (unnamed.broker.host, unnamed.is_unknown) == (host, True)
    assert (silent.broker.port, silent.is_unknown) == (port, False)


def test_each_unreachable_broker_is_named_with_what_to_do(golden: Golden) -> None:
    unknown = UnreachableBroker(BrokerAddress(1, "kafka-0.internal", 9092), "no such name", True)
    closed = UnreachableBroker(BrokerAddress(2, "10.0.0.2", 9093), "refused", False)
    assert error_hints.unreachable_brokers(KAFKA, [unknown, closed]) == golden("both")
    assert error_hints.unreachable_brokers(KAFKA, [closed]) == golden("resolved")
