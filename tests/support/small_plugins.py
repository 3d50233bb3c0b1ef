"""A registry of small plugins, and policies for it in few words."""

from collections.abc import Mapping
from textwrap import dedent, indent
from typing import Final

from pydantic import Field

from reactive_desched.api.args import Count, PluginArgs, Seconds, SelectorObject
from reactive_desched.policy.registry import PluginSpec

__all__ = ["HEAD", "REGISTRY", "policy_with_args"]

HEAD: Final = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


class Window(PluginArgs):
    longest: Seconds = 0.0


class TaintsArgs(PluginArgs):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] | None = None
    included_taints: tuple[str, ...] | None = None
    label_selector: SelectorObject | None = None
    weight: float = 1.0
    most: Count = 5
    window: Window = Window()


class AffinityArgs(PluginArgs):
    node_affinity_type: tuple[str, ...] = Field(min_length=1)


class AgeArgs(PluginArgs):
    max_age: Count = 5


_OTHERS: Final = {
    "PodLifeTime": frozenset({"deschedule"}),
    "RemoveFailedPods": frozenset({"deschedule"}),
    "RemovePodsHavingTooManyRestarts": frozenset({"deschedule"}),
    "RemoveDuplicates": frozenset({"balance"}),
    "LowNodeUtilization": frozenset({"balance"}),
    "HighNodeUtilization": frozenset({"balance"}),
    "LowNodeLoad": frozenset({"balance"}),
}

REGISTRY: Final[Mapping[str, PluginSpec]] = {
    "RemovePodsViolatingNodeTaints": PluginSpec(TaintsArgs, frozenset({"deschedule"})),
    "RemovePodsViolatingNodeAffinity": PluginSpec(AffinityArgs, frozenset({"deschedule"})),
    **{name: PluginSpec(AgeArgs, points) for name, points in _OTHERS.items()},
}


def policy_with_args(plugin: str, args: str) -> str:
    """Write a policy that enables one plugin with the given arguments, from line 9 on."""
    point = "filter" if plugin == "DefaultEvictor" else "deschedule"
    return (
        f"{HEAD}profiles:\n- name: p\n  plugins: {{{point}: {{enabled: [{plugin}]}}}}\n"
        f"  pluginConfig:\n  - name: {plugin}\n    args:\n{indent(dedent(args), ' ' * 6)}"
    )
