"""The event loop of a program that serves for long: uvloop's where uvloop is installed."""

from importlib.util import find_spec
from typing import Any

__all__ = ["has_uvloop", "loop_options"]


def has_uvloop() -> bool:
    """Say whether uvloop is installed; some platforms have none."""
    return find_spec("uvloop") is not None


def loop_options() -> dict[str, Any]:
    """Return the `backend_options` of anyio that choose uvloop where there is one."""
    return {"use_uvloop": has_uvloop()}
