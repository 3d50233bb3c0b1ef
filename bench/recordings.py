"""Writes recordings of many hours within seconds, as a controller would of a generated cluster.

Pods lose and regain readiness at an even pace, the commonest change of a cluster. No plugin of the
recorded policy has anything to evaluate by that, so there are no turns of the controller, and there
is no journal beside such a recording.
"""

import json
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bench.generate import Cluster
from bench.measure.target import bench_policy
from reactive_desched._version import __version__
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.objects import ClusterObject, Pod, PodStatus
from reactive_desched.recording.items import (
    STOPPED,
    ConfigurationInForce,
    Instant,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    TermChanged,
)
from reactive_desched.recording.recorder import FLUSH_S, FRAME_BYTES
from reactive_desched.recording.rows import RowWriter
from reactive_desched.recording.segment_file import SegmentFile
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import NODES, PODS, WATCHED_KINDS

BEGAN: Final = Instant(1_790_000_000.0, 1_000.0)
"""When each of these recordings begins."""

SEGMENT_S: Final = 6 * 3600.0
"""So often there is a picture, as by the settings' default."""

_CROWDED: Final = frozenset({"RemovePodsViolatingInterPodAntiAffinity"})
"""The plugins by which a small generated cluster has more pods on a node than is allowed."""

_MAX_BYTES: Final = 2**33
_AHEAD_S: Final = BEGAN.wall_s - BEGAN.monotonic_s
_FOUND_AT_ONCE: Final = 1_000
_STEP: Final = 7919
"""Prime, so that successive changes touch far-apart pods."""


def write_recording(folder: Path, cluster: Cluster, changes_per_s: float, lasts_s: float) -> int:
    """Record so many seconds of a cluster into a folder; return how many changes that are."""
    recording, changes = _Recording(folder, cluster), round(lasts_s * changes_per_s)
    for number in range(changes):
        recording.change(number, number / changes_per_s)
    recording.end(lasts_s)
    return changes


class _Changing(Struct):
    """A pod as it is now, and the statuses between which it changes."""

    pod: Pod
    statuses: tuple[PodStatus, PodStatus]


class _Recording:
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        tables, unready = InternTables(), dict[str, PodStatus]()
        read = ResourceCodec(WATCHED_KINDS[PODS], tables).decode_object
        self._pods = list[_Changing]()
        for owner, ordinal in cluster.order:
            pod: Pod = read(cluster.pod(owner, ordinal))
            if owner.uid not in unready:
                changed = cluster.changed_pod(owner, ordinal, 1, ready=False)
                unready[owner.uid] = read(changed).status
            self._pods.append(_Changing(pod, (unready[owner.uid], pod.status)))
        read_node = ResourceCodec(WATCHED_KINDS[NODES], tables).decode_object
        self._nodes = [read_node(cluster.node(number)) for number in range(cluster.nodes)]
        self._versions = count(1 + max(each.pod.resource_version for each in self._pods))
        self._file = SegmentFile(folder, _MAX_BYTES, float("inf"))
        self._rows = RowWriter()
        self._segment_ends_s = self._flushed_s = 0.0

    def change(self, number: int, passed_s: float) -> None:
        """Change the status of the next pod, so long after the beginning."""
        if passed_s >= self._segment_ends_s:
            self._begin_segment(passed_s, is_continued=number > 0)
            self._segment_ends_s = passed_s + SEGMENT_S
        lap, turn = divmod(number, len(self._pods))
        each = self._pods[turn * _STEP % len(self._pods)]
        before, at = each.pod, _instant(passed_s)
        each.pod = replace(
            before,
            status=each.statuses[lap % 2],
            condition_transitions=(int(at.wall_s), *before.condition_transitions[1:]),
            resource_version=next(self._versions),
        )
        self._rows.modify_pod(at.monotonic_s, _AHEAD_S, before, each.pod)
        if passed_s - self._flushed_s >= FLUSH_S:
            self._flushed_s = passed_s
            self._flush()

    def end(self, passed_s: float) -> None:
        """End the recording in order."""
        self._rows.add(RecordingInterrupted(_instant(passed_s), STOPPED))
        self._flush()
        self._file.close()

    def _begin_segment(self, passed_s: float, *, is_continued: bool) -> None:
        self._flush()
        at, self._rows = _instant(passed_s), RowWriter()
        rows = self._rows
        self._file.begin(at, is_continued=is_continued)
        rows.add(PictureBegun(at, __version__, "bench", is_continued=is_continued))
        rows.add(ConfigurationInForce(at, json.dumps(bench_policy(_CROWDED))))
        rows.add(TermChanged(at, leads=True, identity="bench"))
        rows.add(ProcessBegan(at, evaluates_from_s=BEGAN.monotonic_s))
        for number, (resource, obj) in enumerate(self._objects()):
            rows.add(ObjectFound(at, resource, obj))
            if number % _FOUND_AT_ONCE == 0:
                rows.encode()
                if len(rows) >= FRAME_BYTES:
                    self._flush()
        rows.add(PictureEnded(at, {NODES: len(self._nodes), PODS: len(self._pods)}))
        self._flush()

    def _objects(self) -> Iterator[tuple[str, ClusterObject]]:
        return chain(
            ((NODES, each) for each in self._nodes), ((PODS, each.pod) for each in self._pods)
        )

    def _flush(self) -> None:
        if (taken := self._rows.take()) is not None:
            self._file.write(*taken)


def _instant(passed_s: float) -> Instant:
    return Instant(BEGAN.wall_s + passed_s, BEGAN.monotonic_s + passed_s)
