"""The machines of a made-up cluster."""

from typing import Final

from msgspec import Struct

from reactive_desched.sim.amounts import write_amount
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Store

__all__ = ["Total", "create_nodes"]

_REGION: Final = "sim-1"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class _Shape(Struct, frozen=True):
    """A machine type; the system keeps a little of it for itself."""

    name: str
    cpus: int
    memory_gi: int

    @property
    def cpu_m(self) -> int:
        return self.cpus * 1000 - 80

    @property
    def memory_mi(self) -> int:
        return self.memory_gi * 1024 * 93 // 100


_SHAPES: Final = (
    _Shape("g4", 4, 16),
    _Shape("g8", 8, 32),
    _Shape("g8", 8, 32),
    _Shape("g16", 16, 64),
)


class Total(Struct, frozen=True):
    """The sum of what all nodes can allocate."""

    cpu_m: int
    memory_mi: int


def create_nodes(store: Store, count: int, zones: int, most_pods: int) -> Total:
    """Create nodes of mixed size, zone by zone in turn, and return what they hold."""
    width = len(str(count))
    cpu_m = memory_mi = 0
    for index in range(count):
        shape = _SHAPES[index // zones % len(_SHAPES)]
        store.create("nodes", _node(index, f"node-{index + 1:0{width}}", zones, shape, most_pods))
        cpu_m += shape.cpu_m
        memory_mi += shape.memory_mi
    return Total(cpu_m, memory_mi)


def _node(index: int, name: str, zones: int, shape: _Shape, most_pods: int) -> Obj:
    zone = f"{_REGION}{_zone_letter(index % zones)}"
    high, low = divmod(index + 10, 250)
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": shape.name,
                "topology.kubernetes.io/region": _REGION,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"providerID": f"sim:///{zone}/{name}"},
        "status": {
            "capacity": _amounts(shape.cpus * 1000, shape.memory_gi * 1024, most_pods),
            "allocatable": _amounts(shape.cpu_m, shape.memory_mi, most_pods),
            "addresses": [
                {"type": "InternalIP", "address": f"192.168.{high}.{low + 1}"},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def _zone_letter(number: int) -> str:
    """Name zones a to z, then za, zb and so on."""
    rounds, place = divmod(number, len(_LETTERS))
    return "z" * rounds + _LETTERS[place]


def _amounts(cpu_m: int, memory_mi: int, pods: int) -> dict[str, str]:
    cpu = f"{cpu_m}m" if cpu_m % 1000 else str(cpu_m // 1000)
    return {
        "cpu": cpu,
        "memory": write_amount("memory", memory_mi * 2**20),
        "pods": str(pods),
        "ephemeral-storage": "100Gi",
    }
