"""The answers to checks of a service's health."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

HELD_KEYS: Final = 1000
"""A check holds at most so many namespaces, profiles or plugins by name; beyond that, all."""


class Symptom(Struct, frozen=True, gc=False):
    """One sample or alert that says that the service suffers.

    `labels` are its own, and `value` is the number as the source wrote it, empty for an alert.
    """

    labels: Mapping[str, str] = {}
    value: str = ""

    def __str__(self) -> str:
        shown = ", ".join(f'{name}="{value}"' for name, value in sorted(self.labels.items()))
        return f"{_shortened(self.value)} {{{shown}}}".strip()


def _shortened(number: str) -> str:
    """Return a number as people read it: of 0.09999999999999998 six digits."""
    try:
        short = f"{float(number):.6g}"
    except ValueError:
        return number
    return short if len(short) < len(number) and "." in number else number


class HealthAnswer(Struct, frozen=True, gc=False):
    """The answer to a check that counts from now on.

    `symptoms` is empty while the service is well. `problem` says why it is not known whether it
    suffers; empty where it is known. `more` counts the symptoms that were left out of `symptoms`.
    """

    check: str
    symptoms: tuple[Symptom, ...] = ()
    problem: str = ""
    more: int = 0
