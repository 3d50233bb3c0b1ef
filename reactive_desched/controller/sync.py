"""Is our picture whole and live? Nothing is judged or evicted unless every resource is."""

from collections.abc import Callable, Collection, Iterable

_NOT_LISTED = "not listed yet"


class Synced:
    """What each resource still lacks; `on_change` is called whenever that differs.

    A `dispensable` resource that the server refuses counts as in order, as if there were none of
    it, until it can be read after all; `went_without` hears of it.
    """

    def __init__(
        self,
        resources: Iterable[str],
        on_change: Callable[[], None],
        dispensable: Collection[str] = (),
    ) -> None:
        self.went_without: Callable[[str, str], None] = lambda *_: None
        self._dispensable = dispensable
        self._without: set[str] = set()
        self._whole = dict.fromkeys(resources, False)
        self._lacks = dict.fromkeys(self._whole, _NOT_LISTED)
        self._on_change = on_change
        self._why_not = self._first_lack()

    @property
    def complete(self) -> bool:
        """Say whether every resource is whole and live."""
        return self._why_not is None

    def why_not(self) -> str | None:
        """Name the first resource that is not in order and why, or None."""
        return self._why_not

    def lacks(self) -> dict[str, str]:
        """Return what each resource lacks; an empty text is in order."""
        return dict(self._lacks)

    def replacing(self, resource: str) -> None:
        """A new picture is being swapped in."""
        self._whole[resource] = False
        self._note(resource, "a new list is being taken in")

    def replaced(self, resource: str) -> None:
        """The new picture is in; it counts once a watch is open on it."""
        self._whole[resource] = True
        self._note(resource, "waiting for a watch")

    def stale(self, resource: str, reason: str) -> None:
        """The link is lost."""
        if resource not in self._without:
            self._note(resource, reason or "link lost")

    def denied(self, resource: str, reason: str) -> None:
        """The server refuses it: go without it where that can be."""
        if resource in self._dispensable and resource not in self._without:
            self._without.add(resource)
            self.went_without(resource, reason)
            self._note(resource, "")

    def fresh(self, resource: str) -> None:
        """A watch is open; this counts only on a whole picture."""
        self._without.discard(resource)
        if self._whole[resource]:
            self._note(resource, "")

    def _note(self, resource: str, lack: str) -> None:
        if self._lacks[resource] != lack:
            self._lacks[resource] = lack
            self._why_not = self._first_lack()
            self._on_change()

    def _first_lack(self) -> str | None:
        lacks = (f"{resource}: {lack}" for resource, lack in self._lacks.items() if lack)
        return next(lacks, None)
