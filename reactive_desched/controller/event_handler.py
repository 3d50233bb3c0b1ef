"""Where a reflector's objects enter: into the state, and on as changes."""

from collections.abc import Callable

from reactive_desched.controller.sync import SyncStatus
from reactive_desched.errors import Malformed
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject
from reactive_desched.state.cluster import ClusterState

OnMalformed = Callable[[str, Malformed], None]


class ResourceEventHandler:
    """One resource's way in.

    A whole new picture is compared with the old one, so that what was missed while the link was
    down, deletions included, becomes changes. `tell` is given changes and the resourceVersion of
    the object they came from; 0 where it is missing from a picture and nobody told of its end.
    """

    def __init__(
        self,
        resource: str,
        state: ClusterState,
        sync_status: SyncStatus,
        on_changes: Callable[[list[Change], int], None],
        on_malformed: OnMalformed,
    ) -> None:
        self._resource = resource
        self._state = state
        self._sync_status = sync_status
        self._on_changes = on_changes
        self._on_malformed = on_malformed
        self._missing: set[str] | None = None

    def upsert(self, obj: ClusterObject, /) -> None:
        """Take in an object that is new or has changed."""
        if self._missing is not None:
            self._missing.discard(obj.key)
        if changes := self._state.upsert(obj):
            self._on_changes(changes, obj.resource_version)

    def remove(self, obj: ClusterObject, /) -> None:
        """Forget an object that is gone."""
        if changes := self._state.remove(obj):
            self._on_changes(changes, obj.resource_version)

    def begin_replace(self) -> None:
        """A whole new picture comes in; what it lacks is gone at its end."""
        self._sync_status.list_started(self._resource)
        self._missing = set(self._state.keys(self._resource))

    def end_replace(self) -> None:
        """Forget what the new picture lacks."""
        missing, self._missing = self._missing or set(), None
        for key in missing:
            if (obj := self._state.get(self._resource, key)) is not None and (
                changes := self._state.remove(obj)
            ):
                self._on_changes(changes, 0)
        self._state.set_readable(self._resource, readable=True)
        self._sync_status.list_finished(self._resource)

    def mark_stale(self, reason: str, /) -> None:
        """The link is lost: nothing may be evicted on this picture."""
        self._sync_status.stale(self._resource, reason)

    def mark_denied(self, reason: str, /) -> None:
        """The server refuses it for good, as far as anybody can tell."""
        self._sync_status.denied(self._resource, reason)
        self._state.set_readable(self._resource, readable=False)

    def mark_synced(self) -> None:
        """A watch is open on a whole picture."""
        self._sync_status.watch_started(self._resource)

    def report_malformed(self, error: Malformed, /) -> None:
        """Count an object that could not be read."""
        self._on_malformed(self._resource, error)
