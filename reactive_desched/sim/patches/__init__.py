"""The ways a client can say what to change about an object."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.patches.json_patch import apply_json_patch
from reactive_desched.sim.patches.merge import apply_merge_patch
from reactive_desched.sim.patches.strategic import apply_strategic_patch

__all__ = ["PATCHES", "STRATEGIC", "apply_json_patch", "apply_merge_patch", "apply_strategic_patch"]

STRATEGIC = "application/strategic-merge-patch+json"

PATCHES: Mapping[str, Callable[[Obj, Any], Obj]] = MappingProxyType(
    {
        "application/json-patch+json": apply_json_patch,
        "application/merge-patch+json": apply_merge_patch,
        STRATEGIC: apply_strategic_patch,
    }
)
