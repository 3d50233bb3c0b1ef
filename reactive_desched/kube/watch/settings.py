"""The times and sizes of a reflector, and what it tells about itself."""

from msgspec import Struct

from reactive_desched.kube.watch.backoff import Steps
from reactive_desched.kube.watch.lister import PageSizes
from reactive_desched.kube.watch.yielding import Gait

__all__ = ["ReflectSettings", "ReflectorStatus"]


class ReflectSettings(Struct, frozen=True, gc=False):
    """How patient and how large; the defaults suit a real API server.

    A watch is asked to last between `watch_s` and twice that. It counts as dead after
    `silence_slack_s` beyond that time, or, once bookmarks come (one a minute), after
    `silence_after_bookmark_s` without a byte. A watch that is opened on a picture older than
    `settle_s` is fresh that much later: first comes what was missed, or word that it is gone.
    """

    streaming: bool = True
    first: PageSizes = PageSizes(page=300, gait=Gait(steps=100))
    again: PageSizes = PageSizes(page=250, gait=Gait(steps=50))
    watch_s: float = 300.0
    silence_slack_s: float = 30.0
    silence_after_bookmark_s: float = 150.0
    initial_silence_s: float = 30.0
    streaming_refused_s: float = 600.0
    denied_s: float = 60.0
    relist_pause_s: float = 30.0
    settle_s: float = 1.0
    steps: Steps = Steps()


class ReflectorStatus(Struct, gc=False):
    """One reflector's state, for `/readyz?verbose` and the metrics.

    `state` is one of starting, listing, swapping, connecting, watching and waiting; `fresh` means
    that a watch is open, or being reopened after a regular end, on a complete picture. The
    `resource_version` is that of the last list, bookmark or end of a watch.
    """

    kind: str
    path: str
    state: str = "starting"
    fresh: bool = False
    resource_version: str = ""
    last_error: str = ""
    failures: int = 0
    syncs: int = 0
    relists: int = 0
    watches: int = 0
    reconnects: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0
