"""Applies a reflector's objects to the cluster state, and the changes to the controller."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.controller.asked_kinds import effect_without
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.readiness import PauseStatus, sync_pause
from reactive_desched.controller.worker import Worker
from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import ReflectorStore
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.observer import Observer
from reactive_desched.model.rights import Right, remedy_for, right_to_read
from reactive_desched.state.kinds.kind import Purpose
from reactive_desched.state.resources import WATCHED_KINDS

_KEYS_PER_STEP: Final = 200

_ENDS: Final = 2
"""Listed keys are kept by so many of their last characters: of the uids of 500,000 pods 2,000 are
freed at once. By one character it was 31,000, which took 2.5 ms.
"""


class ResourceEventHandler(ReflectorStore[ClusterObject]):
    """Applies one resource's objects to the state, and the changes that follow to the controller.

    A new list is compared with the old state, so that what a lost watch missed, deletions
    included, becomes changes. The handler owns the pause `sync/<resource>`: it holds while a list
    is applied, and until a watch is open. A resource that the API server denies does not hold it
    where it is optional, or nothing that is enabled reads it; measured use never does.
    """

    def __init__(
        self, resource: str, controller: Controller, worker: Worker, observer: Observer
    ) -> None:
        self._resource = resource
        self._kind = WATCHED_KINDS[resource]
        self._pause_name = sync_pause(resource)
        self._controller = controller
        self._clocks = controller.clocks
        self._state = controller.state
        self._store = controller.state.store_of(self._kind.record)
        self._get = controller.state.store(self._kind.record).get
        self._readiness = controller.readiness
        self._worker = worker
        self._observer = observer
        self._listed: defaultdict[str, set[str]] | None = None  # keys by their last characters
        self._is_listed = False
        self._is_denied = False

    def reuse(self, obj: ClusterObject, /) -> ClusterObject:
        """Return the object of the state where it equals this one of a new list."""
        if not self._is_listed:  # there is none yet
            return obj
        held = self._get(obj.key)
        return held if held is not None and held == obj else obj

    def upsert(self, obj: ClusterObject, /) -> None:
        """Apply an object that is new or has changed."""
        if self._listed is not None:
            self._listed[obj.key[-_ENDS:]].add(obj.key)
        with self._clocks.still():
            if changes := self._store(obj):
                self._apply(changes, obj.resource_version)

    def upsert_many(self, objs: Sequence[ClusterObject], /) -> None:
        """Apply objects of a new list."""
        if not self._controller.ignores_changes:
            for obj in objs:
                self.upsert(obj)
            return
        if self._listed is not None:
            for obj in objs:
                self._listed[obj.key[-_ENDS:]].add(obj.key)
        self._state.load(objs)
        self._controller.pauses.look_again_at_brake()

    def remove(self, obj: ClusterObject, /) -> None:
        """Remove an object that was deleted."""
        with self._clocks.still():
            if changes := self._state.remove(obj):
                self._apply(changes, obj.resource_version)

    def begin_replace(self) -> None:
        """A new list begins; what it lacks is removed at its end."""
        self._is_listed = False
        self._pause("a new list is being applied")
        self._listed = defaultdict(set) if len(self._state.store(self._kind.record)) else None

    def remove_unlisted(self) -> Iterator[None]:
        """Remove what the new list lacks, in steps of less than a millisecond."""
        if self._listed is None:
            return
        for keys in self._state.key_batches(self._resource):
            keys.reverse()  # taken from its end: to free all of a long list at once takes long
            while keys:
                key = keys.pop()
                if key not in self._listed[key[-_ENDS:]]:
                    self._remove_unlisted(key)
                    yield
                elif len(keys) % _KEYS_PER_STEP == 0:
                    yield
        while self._listed:
            self._listed.popitem()  # to free all of them at once takes long
            yield
        self._listed = None

    def _remove_unlisted(self, key: str) -> None:
        if (obj := self._state.get(self._resource, key)) is None:
            return
        with self._clocks.still():
            if changes := self._state.remove(obj):
                self._apply(changes, 0)  # no event named a version

    def end_replace(self) -> None:
        """Remove what the new list lacks and was not removed before."""
        for _ in self.remove_unlisted():
            pass
        self._state.set_readable(self._resource, readable=True)
        self._is_listed = True
        self._pause("waiting for a watch")

    def mark_stale(self, reason: str, /) -> None:
        """The watch is lost: nothing may be evicted on this state."""
        if not self._is_denied:
            self._pause(reason or "the watch is lost")

    def mark_denied(self, reason: str, /) -> bool:
        """The API server denies the resource, and not only for a moment.

        Returns whether the controller goes on without it.
        """
        self._state.set_readable(self._resource, readable=False)
        is_unasked = not (self._kind.optional or self._readiness.asks_for(self._resource))
        goes_without = self._kind.optional or is_unasked
        if goes_without and not self._is_denied:
            self._go_without(reason, is_unasked=is_unasked)
        self._is_denied = goes_without
        return goes_without

    def _go_without(self, reason: str, *, is_unasked: bool) -> None:
        effect = effect_without(self._resource)
        right = self._missing_right(reason)
        remedy = remedy_for(reason, right)
        how = f"; {remedy}" if remedy else ""
        is_read = self._kind.holds_evictions or self._state.has_followers(self._kind.record)
        # Of the kinds of gangs an API server serves one or two: that it lacks the others is known.
        if is_read and (right is not None or self._kind.purpose is not Purpose.GANGS):
            self._observer.on_resource_missing(self._resource, effect, reason + how)
        if self._kind.holds_evictions:
            status = PauseStatus(
                note=f"not watched: {effect} ({reason}{how})",
                denial=reason,
                right=right,
                is_unasked=is_unasked,
            )
            self._readiness.go_without(self._pause_name, status)
        self._worker.wake()

    def _missing_right(self, reason: str) -> Right | None:
        return right_to_read(self._kind.group, self._kind.plural, reason)

    def mark_synced(self) -> None:
        """A watch is open; with a complete list the resource is in sync."""
        self._is_denied = False
        if self._is_listed:
            self._resume()
            self._worker.wake()

    def report_malformed(self, error: Malformed, /) -> None:
        """Report an object that could not be decoded."""
        self._observer.on_malformed(self._resource, error)

    def _pause(self, reason: str) -> None:
        if self._kind.holds_evictions:
            is_asked = self._kind.optional or self._readiness.asks_for(self._resource)
            right = self._missing_right(reason) if is_asked else None
            if remedy := remedy_for(reason, None):
                reason = f"{reason}; {remedy}"
            self._readiness.pause(self._pause_name, reason, right)

    def _resume(self) -> None:
        if self._kind.holds_evictions:
            self._readiness.resume(self._pause_name)

    def _apply(self, changes: list[Change], version: int) -> None:
        if self._controller.apply(changes, version):
            self._worker.wake()
