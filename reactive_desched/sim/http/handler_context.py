"""The objects that every request handler of the API server gets."""

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.identity import Identities
from reactive_desched.sim.http.paging import Pages
from reactive_desched.sim.http.watchers import WatchHub
from reactive_desched.sim.store import Store

__all__ = ["HandlerContext", "Settings", "Usage"]


class Settings(Struct, frozen=True, kw_only=True):
    """Limits and abilities; the defaults are those of a present-day server."""

    git_version: str = "v1.36.1"
    watch_list: bool = True
    """Whether streaming lists are served; if not they are refused with 422."""
    aggregated_discovery: bool = True
    bookmark_every_s: float = 60.0
    watch_buffer: int = 10_000
    """Undelivered events one watch may have; when full, the watch is closed without a word."""
    freshness_wait_s: float = 3.0
    """How long a read waits for a version this server has not reached, before 504."""
    shortest_watch_s: float = 1800.0
    """A watch that names no timeout gets one between this and twice this."""
    most_body_bytes: int = 3 * 1024 * 1024
    page_snapshots: int = 16
    """Paged lists whose first state is remembered; older ones are rebuilt from history."""


class Usage(Protocol):
    """The numbers of the resource metrics API, as quantities by resource."""

    def node(self, name: str) -> Mapping[str, str] | None:
        """Return what a node uses, or None while it is not measured."""
        ...

    def pod(self, namespace: str, name: str) -> Sequence[tuple[str, Mapping[str, str]]] | None:
        """Return what each container of a pod uses, or None while it is not measured."""
        ...


class HandlerContext(Struct, frozen=True, eq=False):
    """The server's parts; one for each running server."""

    store: Store
    hub: WatchHub
    pages: Pages
    settings: Settings
    catalogue: Catalogue
    identities: Identities
    rng: random.Random
    usage: Usage | None = None
