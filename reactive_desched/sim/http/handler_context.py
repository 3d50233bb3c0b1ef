"""What every request handler of the API server is given."""

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.identity import Identities
from reactive_desched.sim.http.paging import Pages
from reactive_desched.sim.http.settings import Settings
from reactive_desched.sim.http.watchers import WatchHub
from reactive_desched.sim.store import Store

__all__ = ["HandlerContext", "Usage"]


class Usage(Protocol):
    """Where the resource metrics API gets its numbers, as quantities by resource."""

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
