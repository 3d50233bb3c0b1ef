"""Keeps the host ports that are in use on each node."""

from collections.abc import Iterable

from reactive_desched.model.objects import HostPort
from reactive_desched.model.scheduling import host_ports_conflict
from reactive_desched.primitives import bits

Ports = frozenset[HostPort]
NO_PORTS: Ports = frozenset()


class HostPortIndex:
    """Host ports by the slots where a pod or a reservation uses them."""

    def __init__(self) -> None:
        self._of_slot: dict[int, Ports] = {}
        self._nodes: dict[HostPort, int] = {}
        self._same_number: dict[tuple[int, str], set[HostPort]] = {}

    def used_in(self, slot: int) -> Ports:
        """Return the ports in use in a slot."""
        return self._of_slot.get(slot, NO_PORTS)

    def update(self, slot: int, ports: Ports) -> bool:
        """Update the ports in use in a slot; say whether any became free."""
        before = self.used_in(slot)
        if ports == before:
            return False
        for port in before - ports:
            self._mark(port, slot, in_use=False)
        for port in ports - before:
            self._mark(port, slot, in_use=True)
        if ports:
            self._of_slot[slot] = ports
        else:
            del self._of_slot[slot]
        return bool(before - ports)

    def conflicting(self, wanted: Iterable[HostPort]) -> int:
        """Return the slots where any of these ports conflicts with a used one."""
        found = 0
        for port in wanted:
            for used in self._same_number.get((port.port, port.protocol), ()):
                if host_ports_conflict(port, used):
                    found |= self._nodes[used]
        return found

    def _mark(self, port: HostPort, slot: int, *, in_use: bool) -> None:
        nodes = bits.with_bit(self._nodes.get(port, 0), slot, present=in_use)
        number = port.port, port.protocol
        if nodes:
            self._nodes[port] = nodes
            self._same_number.setdefault(number, set()).add(port)
            return
        del self._nodes[port]
        self._same_number[number].discard(port)
        if not self._same_number[number]:
            del self._same_number[number]


def any_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Say whether any wanted port conflicts with a used one."""
    used = tuple(used)
    return any(host_ports_conflict(port, other) for port in wanted for other in used)
