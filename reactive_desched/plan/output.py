"""Writes a report in the form that was asked for."""

import os
import shutil
from typing import Final, TextIO

import msgspec

from reactive_desched.plan.report import Report
from reactive_desched.plan.text import Look, lines

__all__ = ["write"]

_NARROWEST: Final = 60


def write(report: Report, form: str, into: TextIO) -> None:
    """Write the report as `table`, `wide`, `json` or `yaml`."""
    if form == "json":
        into.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    elif form == "yaml":
        into.write(msgspec.yaml.encode(report).decode())
    else:
        into.writelines(f"{line}\n" for line in lines(report, _look(into, wide=form == "wide")))


def _look(into: TextIO, *, wide: bool) -> Look:
    """Fold and colour on a terminal only, so that what is piped keeps a line for each pod."""
    if not into.isatty():
        return Look(wide=wide)
    width = None if wide else max(shutil.get_terminal_size().columns, _NARROWEST)
    return Look(width=width, colours="NO_COLOR" not in os.environ, wide=wide)
