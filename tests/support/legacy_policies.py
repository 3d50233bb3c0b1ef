"""Policies in the legacy format in few words, and what is said of them where it was written."""

from textwrap import dedent, indent
from typing import Final

from reactive_desched.controller.config import registry
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import Configuration, check, configure

__all__ = [
    "AFFINITY",
    "OLD",
    "REQUIRED",
    "RESTARTS",
    "SPREAD",
    "TAINTS",
    "read",
    "strategy",
    "told",
    "warned",
]

OLD: Final = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
AFFINITY: Final = "RemovePodsViolatingNodeAffinity"
TAINTS: Final = "RemovePodsViolatingNodeTaints"
SPREAD: Final = "RemovePodsViolatingTopologySpreadConstraint"
RESTARTS: Final = "RemovePodsHavingTooManyRestarts"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def strategy(name: str, params: str = "{}", top: str = "") -> str:
    """Write a policy with one strategy; its params begin on line 7, after `top` if there is any."""
    return (
        f"{OLD}{dedent(top)}strategies:\n  {name}:\n    enabled: true\n    params:\n"
        f"{indent(dedent(params), ' ' * 6)}\n"
    )


def read(text: str) -> Configuration:
    """Read one text called p.yaml."""
    return configure([Source(dedent(text), "p.yaml")], registry())


def warned(text: str) -> list[str]:
    """Give the warnings but the one that every policy in this format gets."""
    return [str(it).removeprefix("p.yaml:") for it in read(text).warnings[1:]]


def told(text: str) -> list[str]:
    """Give the problems of a text that is refused, one line each."""
    problems = check(Source(dedent(text), "p.yaml"), registry()).problems
    return [str(problem).removeprefix("p.yaml:") for problem in problems]
