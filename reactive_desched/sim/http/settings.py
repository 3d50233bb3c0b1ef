"""The settings of the simulated API server that tests change."""

from msgspec import Struct

__all__ = ["Settings"]


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
