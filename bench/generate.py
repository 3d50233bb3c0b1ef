"""Writes a realistic cluster to a cache folder once, so that every run measures the same bytes.

Items of a resource stand in one file, joined by commas, with the offset of each beside it: any
page of a list is then one slice of that file.
"""

import contextlib
import hashlib
import mmap
import os
import shutil
import tempfile
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path

from bench.node_json import host_ip, node_name, render_csi_node, render_node
from bench.owner_json import OWNER_KINDS
from bench.pod_json import PodValues, pod_template
from bench.small_json import SMALL_KINDS, SmallKind
from bench.workloads import Workload, generate_workloads, uid_text

LIST_VERSION = 1_000_000_000
"""The resource version of every list; events count on from here."""
_EPOCH_S = 1_760_000_000
_SUFFIX = bytes(b"bcdfghjklmnpqrstvwxz2456789"[byte % 27] for byte in range(256))
_WRITE_ITEMS = 500
_MAX_RESTARTS = 8


class Cluster:
    """The generated cluster as numbers and names: what to write, and what events may change."""

    def __init__(self, pods: int, nodes: int) -> None:
        """Plan `pods` pods on `nodes` nodes; the plan depends on nothing else."""
        self.pods, self.nodes = pods, nodes
        self.owners: Sequence[Workload] = tuple(generate_workloads(pods, nodes))
        self._template = cache(pod_template)  # bounded by the number of owners

    @cached_property
    def order(self) -> list[tuple[Workload, int]]:
        """Every pod as owner and ordinal, in the order in which etcd lists them."""
        named = [
            (owner.namespace, _pod_name(owner, ordinal, _digest(owner, ordinal)), owner, ordinal)
            for owner in self.owners
            for ordinal in range(owner.size)
        ]
        named.sort(key=lambda row: row[:2])
        return [row[2:] for row in named]

    def values(self, owner: Workload, ordinal: int) -> PodValues:
        """Return what sets one pod apart from its siblings."""
        digest = _digest(owner, ordinal)
        digits, node = digest.hex(), owner.node_of(ordinal, self.nodes)
        born = time.gmtime(_EPOCH_S + int.from_bytes(digest[8:11], "big") % 130_000 * 60)
        minute = time.strftime("%Y-%m-%dT%H:%M:", born)
        return PodValues(
            name=_pod_name(owner, ordinal, digest),
            uid=uid_text(digits[:32]),
            version=LIST_VERSION - 1 - int.from_bytes(digest[16:19], "big"),
            minute=minute,
            node=node_name(node),
            host_ip=host_ip(node),
            pod_ip=f"10.{64 + digest[20] % 64}.{digest[21]}.{digest[22]}",
            token=digest[24:29].translate(_SUFFIX).decode(),
            container_a=digits[:64],
            container_b=digits[64:],
            restarts=digest[30] if digest[31] < _MAX_RESTARTS and digest[30] < _MAX_RESTARTS else 0,
            ready=True,
            ready_since=f"{minute}20Z",
            ordinal=ordinal,
        )

    def render(self, owner: Workload, values: PodValues) -> bytes:
        """Return one pod as JSON."""
        return self._template(owner).fill(values.row())

    def pod(self, owner: Workload, ordinal: int) -> bytes:
        """Return one pod as the list shows it."""
        return self.render(owner, self.values(owner, ordinal))

    def changed_pod(self, owner: Workload, ordinal: int, version: int, **fields: object) -> bytes:
        """Return one pod after a change to some of its values."""
        changed = replace(self.values(owner, ordinal), version=version, **fields)  # type: ignore[arg-type]  # mypy cannot see through keyword arguments
        return self.render(owner, changed)

    def node(self, number: int, version: int = LIST_VERSION - 1, *taints: str) -> bytes:
        """Return one node as JSON, with further taints."""
        return render_node(number, self.nodes, version, taints)


def _digest(owner: Workload, ordinal: int) -> bytes:
    return hashlib.blake2b(f"{owner.app}/{ordinal}".encode(), digest_size=64).digest()


def _pod_name(owner: Workload, ordinal: int, digest: bytes) -> str:
    if owner.kind == "StatefulSet":
        return f"{owner.name}-{ordinal}"
    return f"{owner.name}-{digest[:5].translate(_SUFFIX).decode()}"


@dataclass(frozen=True)
class Items:
    """The stored items of one resource."""

    data: mmap.mmap
    offsets: "array[int]"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def slice(self, first: int, last: int) -> memoryview:
        """Return items `first` to `last` (exclusive) as JSON joined by commas."""
        if last <= first:
            return memoryview(b"")
        return memoryview(self.data)[self.offsets[first] : self.offsets[last] - 1]

    def item(self, number: int) -> bytes:
        """Return one item."""
        return bytes(self.slice(number, number + 1))


class Dataset:
    """A generated cluster on disk."""

    def __init__(self, folder: Path, pods: int, nodes: int) -> None:
        """Open the folder that `ensure` returned."""
        self.folder, self.cluster = folder, Cluster(pods, nodes)

    def items(self, resource: str) -> Items:
        """Open the items of one resource; there are none of a kind that is not generated."""
        offsets = array("Q")
        if not (self.folder / f"{resource}.offsets").exists():
            return Items(mmap.mmap(-1, 1), array("Q", [0]))
        offsets.frombytes((self.folder / f"{resource}.offsets").read_bytes())
        with (self.folder / f"{resource}.json").open("rb") as file:
            return Items(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), offsets)


def cache_folder() -> Path:
    """Return where generated clusters are kept: never inside the checkout."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("REACTIVE_DESCHED_BENCH_DATA") or home) / "reactive-desched-bench"


def ensure(pods: int, nodes: int, cache: Path) -> Dataset:
    """Return the cluster of this size, writing it first when the cache has none.

    A folder is named after the generator's own text, so a changed generator never meets old
    data; older folders of the same size are removed.
    """
    size = f"{nodes}x{pods}-"
    folder = cache / f"{size}{_source_digest()}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=cache, prefix="unfinished-"))
        _write(Cluster(pods, nodes), scratch)
        for old in cache.glob(f"{size}*"):
            shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(OSError):  # another run has finished the same data first
            scratch.rename(folder)
    return Dataset(folder, pods, nodes)


def _source_digest() -> str:
    directory = Path(__file__).parent
    names = ("generate.py", "render.py", "workloads.py", "pod_json.py", "node_json.py")
    texts = b"".join(
        (directory / name).read_bytes()
        for name in (*names, "pod_status.py", "small_json.py", "owner_json.py")
    )
    return hashlib.blake2b(texts, digest_size=6).hexdigest()


def _write(cluster: Cluster, folder: Path) -> None:
    pods = (cluster.pod(owner, ordinal) for owner, ordinal in cluster.order)
    _write_items(folder, "pods", pods)
    _write_items(folder, "nodes", (cluster.node(number) for number in range(cluster.nodes)))
    _write_items(folder, "csinodes", map(render_csi_node, range(cluster.nodes)))
    for kind in SMALL_KINDS:
        _write_items(folder, kind.resource, _small_items(kind, cluster))
    for each in OWNER_KINDS:
        _write_items(folder, each.resource, each.items(cluster.owners))


def _small_items(kind: SmallKind, cluster: Cluster) -> Iterable[bytes]:
    names = kind.names(cluster.owners, lambda owner, n: cluster.values(owner, n).name)
    return (kind.render(name) for name in names)


def _write_items(folder: Path, resource: str, items: Iterable[bytes]) -> None:
    offsets, total, left = array("Q", [0]), 0, iter(items)
    with (folder / f"{resource}.json").open("wb") as file:
        while page := list(islice(left, _WRITE_ITEMS)):
            for item in page:
                total += len(item) + 1
                offsets.append(total)
            file.write(b",".join(page) + b",")
    (folder / f"{resource}.offsets").write_bytes(offsets.tobytes())
