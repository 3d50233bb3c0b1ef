"""Decides who owns the generated pods, with the heavy tail that real clusters show."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

DAEMONS = 6
"""DaemonSets: at 30 pods per node they are a fifth of all pods."""

CANARY = "canary"
"""The one workload that does not tolerate the probe taint: one pod on each ordinary node."""

_SYLLABLES = ("payments", "search", "catalog", "gateway", "ledger", "media", "profile", "mail")
_ROLES = ("api", "worker", "cache", "proxy", "indexer")
_REPLICA_SETS, _STATEFUL_SETS = 0.72, 0.16
_SMALL = 8
_TEAMS = 211
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_ZONES = 3
_STRIDES = (13, 37, 43, 61, 67, 73)
"""Each one more than a multiple of the zones: one pod after the other goes to the next zone, and a
multiple of three nodes, of which none is a divisor, gives no two of its pods the same node."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One owner: the template its pods share, and where they go."""

    number: int
    kind: str
    size: int
    namespace: str
    app: str
    cpu_m: int
    memory_mi: int

    @property
    def name(self) -> str:
        """The owner's own name: a ReplicaSet carries its template's hash."""
        return f"{self.app}-{self.template_hash}" if self.kind == "ReplicaSet" else self.app

    @property
    def template_hash(self) -> str:
        """The suffix a ReplicaSet gives its pods' label."""
        return "".join(_ALPHABET[byte % 27] for byte in self._digest()[:9])

    @property
    def uid(self) -> str:
        """The owner's uid."""
        return uid_text(self._digest().hex())

    def _digest(self) -> bytes:
        return hashlib.blake2b(self.app.encode(), digest_size=16).digest()

    @property
    def is_canary(self) -> bool:
        """Say whether this is the workload that the probe taint drives out."""
        return self.app == CANARY

    @property
    def is_replicated(self) -> bool:
        """Say whether its pods are interchangeable and may carry spread constraints."""
        return self.kind in ("ReplicaSet", "StatefulSet") and not self.is_canary

    @property
    def is_spread(self) -> bool:
        """Say whether its pods carry topology spread constraints."""
        return self.is_replicated and self.number % 3 == 0

    @property
    def has_anti_affinity(self) -> bool:
        """Say whether its pods avoid each other."""
        return self.is_replicated and self.number % 2 == 0

    @property
    def has_required_anti_affinity(self) -> bool:
        """Say whether they must, and do not only prefer to."""
        return self.has_anti_affinity and self.number % 3 == 0

    @property
    def is_dedicated(self) -> bool:
        """Say whether its pods live on the tainted nodes."""
        return self.is_replicated and self.number % 20 == 0 and self.size <= _SMALL

    @property
    def has_budget(self) -> bool:
        """Say whether a disruption budget covers its pods."""
        return self.is_replicated and self.number % 3 == 1

    @property
    def has_local_storage(self) -> bool:
        """Say whether its pods keep an emptyDir, which the default evictor respects."""
        return self.is_replicated and self.number % 4 == 1

    def node_of(self, ordinal: int, nodes: int) -> int:
        """Return the node of one of its pods: a healthy cluster, spread by node and by zone."""
        if self.kind == "DaemonSet":
            return ordinal
        stride = _STRIDES[self.number % len(_STRIDES)]
        first = int.from_bytes(self._digest()[:4], "big")
        pool = _dedicated_nodes(nodes) if self.is_dedicated else nodes - _dedicated_nodes(nodes)
        slot = ordinal if self.is_canary else (first + ordinal * stride) % _in_even_zones(pool)
        return slot if self.is_dedicated else slot + _dedicated_nodes(nodes)


def is_dedicated_node(number: int, nodes: int) -> bool:
    """Say whether the node carries the taint of the dedicated pool: one in twenty does."""
    return number < _dedicated_nodes(nodes)


def _dedicated_nodes(nodes: int) -> int:
    return max(1, nodes // 20)


def _in_even_zones(pool: int) -> int:
    """Return how many nodes of a pool take replicas: as many in each zone, or one in all."""
    return max(1, pool - pool % _ZONES)


def uid_text(digits: str) -> str:
    """Shape 32 hexadecimal digits as a uid."""
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def generate_workloads(pods: int, nodes: int) -> Iterator[Workload]:
    """Yield owners until they own exactly `pods` pods; the same for the same numbers."""
    rng = random.Random(7)  # noqa: S311  # the data must be the same on every machine
    left = pods
    for number, (kind, size, app) in enumerate(_sizes(pods, nodes, rng)):
        yield _workload(number, kind, min(size, left), app, rng)
        left -= min(size, left)
        if not left:
            return


def _sizes(pods: int, nodes: int, rng: random.Random) -> Iterator[tuple[str, int, str]]:
    """Yield kind, size and app without end: DaemonSets, the canary, then the mixed rest."""
    for number in range(DAEMONS if pods > nodes * DAEMONS else 0):
        yield "DaemonSet", nodes, f"agent-{number}"
    plain = nodes - _dedicated_nodes(nodes)
    yield "ReplicaSet", min(plain, max(1, pods // 20)), CANARY
    largest = max(2, min(2000, pods // 20, _in_even_zones(plain)))
    while True:
        app = f"{rng.choice(_SYLLABLES)}-{rng.choice(_ROLES)}"
        yield *_draw(largest, rng), app


def _draw(largest: int, rng: random.Random) -> tuple[str, int]:
    """Draw the kind and size of an ordinary owner."""
    draw = rng.random()
    if draw < _REPLICA_SETS:
        return "ReplicaSet", min(largest, max(2, int(rng.paretovariate(1.1) * 6)))
    if draw < _REPLICA_SETS + _STATEFUL_SETS:
        return "StatefulSet", rng.choice((3, 3, 5, 9))
    return "Job", rng.choice((1, 1, 2, 8))


def _workload(number: int, kind: str, size: int, app: str, rng: random.Random) -> Workload:
    return Workload(
        number=number,
        kind=kind,
        size=size,
        namespace="kube-system" if kind == "DaemonSet" else f"team-{rng.randrange(_TEAMS):03d}",
        app=app if app == CANARY else f"{app}-{number}",
        cpu_m=rng.choice((50, 100, 250, 500)),
        memory_mi=rng.choice((64, 128, 256, 512)),
    )
