"""Policies in the legacy format in few words."""

from textwrap import dedent, indent
from typing import Final

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources

__all__ = [
    "AFFINITY",
    "LEGACY_HEADER",
    "REQUIRED",
    "RESTARTS",
    "SPREAD",
    "TAINTS",
    "load_text",
    "strategy",
]

LEGACY_HEADER: Final = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
AFFINITY: Final = "RemovePodsViolatingNodeAffinity"
TAINTS: Final = "RemovePodsViolatingNodeTaints"
SPREAD: Final = "RemovePodsViolatingTopologySpreadConstraint"
RESTARTS: Final = "RemovePodsHavingTooManyRestarts"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def strategy(name: str, params: str = "{}", top: str = "") -> str:
    """Write a policy with one strategy; its params begin on line 7, after `top` if there is any."""
    return (
        f"{LEGACY_HEADER}{dedent(top)}strategies:\n  {name}:\n    enabled: true\n    params:\n"
        f"{indent(dedent(params), ' ' * 6)}\n"
    )


def load_text(text: str) -> Configuration:
    """Read one text called p.yaml."""
    return load_sources([SourceText(dedent(text), "p.yaml")], plugin_registry())
