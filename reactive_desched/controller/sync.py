"""Is our picture whole and live? Nothing is judged or evicted unless every resource is."""

from collections.abc import Callable, Collection, Iterable

_NOT_LISTED = "not listed yet"


class SyncStatus:
    """What each resource still lacks; `on_change` is called whenever that differs.

    A `dispensable` resource that the server refuses counts as in order, as if there were none of
    it, until it can be read after all; `went_without` hears of it.
    """

    def __init__(
        self,
        resources: Iterable[str],
        on_change: Callable[[], None],
        optional: Collection[str] = (),
    ) -> None:
        self.resource_missing: Callable[[str, str], None] = lambda *_: None
        self._optional = optional
        self._missing: dict[str, str] = {}
        self._list_and_watch = dict.fromkeys(resources, False)
        self._reasons = dict.fromkeys(self._list_and_watch, _NOT_LISTED)
        self._on_change = on_change
        self._first_reason = self._find_first_reason()

    @property
    def is_synced(self) -> bool:
        """Say whether every resource is whole and live."""
        return self._first_reason is None

    def first_reason(self) -> str | None:
        """Name the first resource that is not in order and why, or None."""
        return self._first_reason

    def reasons(self) -> dict[str, str]:
        """Return what each resource lacks; an empty text is in order."""
        return dict(self._reasons)

    def missing(self) -> dict[str, str]:
        """Return the optional resources that the API server refuses, and why."""
        return dict(self._missing)

    def all_reasons(self) -> str:
        """Name every resource that is not in order, and why; empty when all are synced.

        Missing optional resources are named too, so that the text is the same when one is refused.
        """
        if self.is_synced:
            return ""
        by_reason: dict[str, list[str]] = {}
        for resource, own_reason in self._reasons.items():
            if reason := own_reason or self._missing.get(resource):
                by_reason.setdefault(reason, []).append(resource)
        return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())

    def list_started(self, resource: str) -> None:
        """A new picture is being swapped in."""
        self._list_and_watch[resource] = False
        self._set_reason(resource, "a new list is being taken in")

    def list_finished(self, resource: str) -> None:
        """The new picture is in; it counts once a watch is open on it."""
        self._list_and_watch[resource] = True
        self._set_reason(resource, "waiting for a watch")

    def stale(self, resource: str, reason: str) -> None:
        """The link is lost."""
        if resource not in self._missing:
            self._set_reason(resource, reason or "link lost")

    def denied(self, resource: str, reason: str) -> None:
        """The server refuses it: go without it where that can be."""
        if resource in self._optional and resource not in self._missing:
            self._missing[resource] = reason
            self.resource_missing(resource, reason)
            self._set_reason(resource, "")

    def watch_started(self, resource: str) -> None:
        """A watch is open; this counts only on a whole picture."""
        self._missing.pop(resource, None)
        if self._list_and_watch[resource]:
            self._set_reason(resource, "")

    def _set_reason(self, resource: str, reason: str) -> None:
        if self._reasons[resource] != reason:
            self._reasons[resource] = reason
            self._first_reason = self._find_first_reason()
            self._on_change()

    def _find_first_reason(self) -> str | None:
        lacks = (f"{resource}: {lack}" for resource, lack in self._reasons.items() if lack)
        return next(lacks, None)
