"""A limit on pods as it is written: a number, or a percentage of what the limit is about."""

import re
from collections.abc import Callable

from reactive_desched.api.args import FieldError, FieldErrors
from reactive_desched.api.rules import Rule
from reactive_desched.primitives.hints import quote


def limit_reader(percentage: re.Pattern[str]) -> Callable[[object], int | str]:
    """Return what reads any whole number, or a text that is such a percentage."""

    def read(written: object) -> int | str:
        if type(written) is int or (isinstance(written, str) and percentage.fullmatch(written)):
            return written
        raise limit_error(written, "25%")

    return read


def limit_error(written: object, percentage: str) -> FieldErrors:
    """Return the one error that there is of what is no limit; `percentage` is an example of one."""
    message = "must be a number of pods or a percentage"
    if isinstance(written, (int, float, str)) and not isinstance(written, bool):
        message = f"{quote(str(written))} is neither a number of pods nor a percentage"
    hint = f"write for example 1 or {percentage}"
    return FieldErrors([FieldError(message, hint, rule=Rule.NOT_A_LIMIT)])
