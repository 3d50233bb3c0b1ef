"""The times and sizes of a reflector."""

from msgspec import Struct

from reactive_desched.kube.watch.initial_list import ListSettings
from reactive_desched.kube.watch.resume import BackoffConfig

__all__ = ["ReflectorSettings"]


class ReflectorSettings(Struct, frozen=True, gc=False):
    """Times and sizes of a reflector; the defaults suit a real API server.

    A watch is requested for a time between `watch_s` and twice that. It counts as dead
    `idle_slack_s` after that time, or, once bookmarks come (one a minute), after
    `idle_after_bookmark_s` without a byte. After `silent_s` without one it is checked for changes
    that it has not brought. Where the objects are older than `sync_delay_s`, a new watch makes them
    synced that much later: missed changes, or a 410, come first. A streaming list without a byte
    after `first_byte_s` is given up for a list in pages.
    """

    streaming: bool = True
    initial_list: ListSettings = ListSettings(page_size=500, steps_per_slice=100)
    relist: ListSettings = ListSettings(page_size=150, steps_per_slice=50)
    watch_s: float = 300.0
    idle_slack_s: float = 30.0
    idle_after_bookmark_s: float = 150.0
    first_byte_s: float = 5.0
    initial_idle_s: float = 30.0
    silent_s: float = 15.0
    streaming_retry_s: float = 600.0
    denied_retry_s: float = 60.0
    min_relist_interval_s: float = 30.0
    sync_delay_s: float = 1.0
    backoff: BackoffConfig = BackoffConfig()
