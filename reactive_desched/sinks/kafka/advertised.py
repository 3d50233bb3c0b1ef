"""Tries the addresses that brokers advertise, which may differ from those in the settings."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

TRY_TIMEOUT_S: Final = 2.0
MAX_TRIED: Final = 10
"""A large cluster has one listener: ten of its brokers show what is wrong with it."""


class BrokerAddress(NamedTuple):
    """The address that a broker advertises."""

    node: int
    host: str
    port: int


class UnreachableBroker(NamedTuple):
    """An address that was tried in vain; `is_unknown` if its name could not be resolved."""

    broker: BrokerAddress
    reason: str
    is_unknown: bool


async def find_unreachable(brokers: Iterable[BrokerAddress]) -> list[UnreachableBroker]:
    """Return the brokers that take no connection, within about two seconds."""
    chosen = sorted(brokers)[:MAX_TRIED]
    tried = await asyncio.gather(*(_try_connection(one) for one in chosen))
    return [one for one in tried if one is not None]


async def _try_connection(broker: BrokerAddress) -> UnreachableBroker | None:
    try:
        async with asyncio.timeout(TRY_TIMEOUT_S):
            _, writer = await asyncio.open_connection(broker.host, broker.port)
    except TimeoutError:
        return UnreachableBroker(
            broker, f"no answer within {TRY_TIMEOUT_S:.0f} s", is_unknown=False
        )
    except (OSError, ValueError) as error:  # ValueError: no name can be written so
        is_unknown = isinstance(error, socket.gaierror | ValueError)
        reason = getattr(error, "strerror", None) or str(error)
        return UnreachableBroker(broker, reason, is_unknown)
    writer.transport.abort()
    return None
