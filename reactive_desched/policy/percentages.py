"""Thresholds in per cent by resource: one form for every plugin that compares nodes."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from reactive_desched.policy.diagnostics import FieldError, FieldErrors, quote

_ALL: Final = 100


def _check_percent(written: object) -> object:
    """Explain what is often written instead of a number."""
    if isinstance(written, str) and written.endswith("%"):
        hint = f"write {written.removesuffix('%').strip()} without quotes"
        raise FieldErrors([FieldError(f"must be a number, not the text {quote(written)}", hint)])
    return written


Percent = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_check_percent)]
"""A number of per cent: 20 is a fifth, 0.2 is a five-hundredth."""

Percentages = Mapping[str, Percent]
"""Per cent by resource (`cpu`, `memory`, `pods`, any extended resource)."""


def percentage_errors(written: Percentages, prefix: str = "") -> Iterator[FieldError]:
    """Refuse what is no share of a node; `prefix` begins each message."""
    if not written:
        hint = "write per cent by resource, for example cpu: 20"
        yield FieldError(f"{prefix}no resource threshold is configured", hint)
    for resource, percent in written.items():
        if not 0 <= percent <= _ALL:
            message = f"{prefix}{resource} threshold not in [0, {_ALL}] range; it is {percent:g}"
            yield FieldError(message, path=(resource,))


def fraction_warnings(written: Percentages | None) -> Iterator[FieldError]:
    """Tell people who wrote shares where per cent are read."""
    for resource, percent in (written or {}).items():
        if 0 < percent < 1:
            hint = f"write {percent * _ALL:g} for {percent * _ALL:g} %"
            yield FieldError(f"{percent:g} is less than one per cent", hint, (resource,))
