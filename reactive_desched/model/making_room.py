"""The names of the plugin that makes room for pods that wait, and of what it judges."""

from typing import Final

MAKE_ROOM: Final = "MakeRoomForPending"
"""The plugin that finds the pods which move for one that waits."""

ALL_PENDING: Final = "pending pods"
"""The one subject of that plugin."""
