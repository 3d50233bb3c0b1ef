"""The base class of the parts of every report."""

from msgspec import Struct

__all__ = ["DecisionCounts", "ReportPart"]


class ReportPart(Struct, frozen=True, gc=False, rename="camel"):
    """Base of all: camel case in JSON and YAML."""


class DecisionCounts(ReportPart, frozen=True, gc=False):
    """How many findings were decided in which way."""

    evict: int = 0
    refuse: int = 0
    defer: int = 0
