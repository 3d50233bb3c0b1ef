"""Lists in pages: every page of one list shows the same moment."""

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.sim.http.options import ListOptions
from reactive_desched.sim.objects import Obj, name_of, namespace_of, storage_key
from reactive_desched.sim.status import Expired, bad_request
from reactive_desched.sim.store import Store

__all__ = ["Page", "Pages", "Snapshot"]


_LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
_PAGE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result."
    " You can start a new list without the continue parameter, or use the continue token in this"
    " response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were"
    " created, modified, or deleted between the time the first chunk was returned and now may show"
    " up in the list."
)


class Snapshot(Struct, frozen=True, eq=False):
    """All objects of one kind at one moment, in storage order."""

    rv: int
    keys: list[str]
    objects: list[Obj]

    def after(self, key: str, namespace: str | None) -> list[Obj]:
        """Return the objects behind `key`, of one namespace or all."""
        first = bisect_right(self.keys, key) if key else 0
        if namespace is None or namespace == "":
            return self.objects[first:]
        first = max(first, bisect_left(self.keys, storage_key(namespace, "")))
        # "0" is the character after "/": every key of the namespace lies before it.
        return self.objects[first : bisect_left(self.keys, f"{namespace}0")]


class Page(Struct, frozen=True):
    """One answer to a list request."""

    objects: list[Obj]
    rv: int
    token: str = ""
    remaining: int | None = None

    def meta(self) -> Obj:
        """Return the metadata of the list."""
        meta: Obj = {"resourceVersion": str(self.rv)}
        if self.token:
            meta["continue"] = self.token
        if self.remaining is not None:
            meta["remainingItemCount"] = self.remaining
        return meta


class _Token(Struct, frozen=True):
    rv: int
    start: str
    v: str = "meta.k8s.io/v1"

    def text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


class Pages:
    """Answers lists, remembering the state that the pages of a list in progress show.

    Holds the latest `limit` states; an older one is rebuilt from the store's history, and when
    that is gone the next page answers 410.
    """

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._compactions = store.compactions
        self._kept: OrderedDict[tuple[str, int], Snapshot] = OrderedDict()

    def page(self, resource: str, options: ListOptions) -> Page:
        """Return the page asked for; raise 400 for a bad token and 410 for a forgotten one."""
        if options.token:
            return self._next(resource, _read(options.token), options)
        exact = options.match == "Exact" or (options.limit and options.rv and not options.match)
        rv = options.rv if exact else self._store.rv
        # Reads at "any" version come from the watch cache, which has no limit.
        limit = 0 if options.version == "0" else options.limit
        if not limit and rv == self._store.rv:
            found = self._store.list(resource, options.wanted.namespace or None)
            return Page([obj for obj in found if options.wanted.matches(obj)], rv)
        return self._cut(resource, rv, "", limit, options)

    def _next(self, resource: str, token: _Token, options: ListOptions) -> Page:
        rv = token.rv if token.rv > 0 else self._store.rv
        return self._cut(resource, rv, token.start, options.limit, options)

    def _cut(self, resource: str, rv: int, after: str, limit: int, options: ListOptions) -> Page:
        snapshot = self._snapshot(resource, rv, after)
        candidates = snapshot.after(after, options.wanted.namespace)
        matching = candidates
        if options.wanted.selects:
            matching = [obj for obj in candidates if options.wanted.matches(obj)]
        if not limit or len(matching) <= limit:
            return Page(matching, rv)
        objects = matching[:limit]
        token = _Token(rv, _key(objects[-1])).text()
        left = None if options.wanted.selects else len(matching) - limit
        return Page(objects, rv, token, left)

    def _snapshot(self, resource: str, rv: int, after: str) -> Snapshot:
        if self._compactions != self._store.compactions:
            self._compactions = self._store.compactions
            self._kept.clear()
        if kept := self._kept.get((resource, rv)):
            self._kept.move_to_end((resource, rv))
            return kept
        try:
            objects = self._store.list_at(resource, rv)
        except Expired as expired:
            if not after:
                raise Expired(_LIST_EXPIRED) from expired
            raise Expired(_PAGE_EXPIRED, _Token(-1, after).text()) from expired
        snapshot = Snapshot(rv, [_key(obj) for obj in objects], objects)
        self._kept[resource, rv] = snapshot
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return snapshot


def _key(obj: Obj) -> str:
    return storage_key(namespace_of(obj), name_of(obj))


def _read(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
