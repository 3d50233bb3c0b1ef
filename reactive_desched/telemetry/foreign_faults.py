"""Names what the code of another package raises, and keeps it to the part that called it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

from reactive_desched.errors import PluginHung
from reactive_desched.primitives.foreign_code import is_fault


@contextmanager
def faults_as(
    make_error: Callable[[str], Exception], origin: str, method: str, *agreed: type[Exception]
) -> Iterator[None]:
    """Raise an error of ours for whatever the block raises, but for `agreed` and for its own end.

    Its text names the package, the method, the exception and its line.
    """
    try:
        yield
    except agreed:
        raise
    except GeneratorExit:
        raise  # what awaits it is closed
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # the controller ends, or the time is over
        raise make_error(f"{origin}: {method}: {describe_fault(error)}") from error
    except BaseException as error:
        if not is_fault(error):
            raise
        raise make_error(f"{origin}: {method}: {describe_fault(error)}") from error


def describe_fault(error: BaseException) -> str:
    """Name an exception and the line that raised it; its text may hold what is not for logs.

    That of a call which was ended is ours, and has the place where it hung.
    """
    if isinstance(error, PluginHung):
        return f"{type(error).__name__}: {error}"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        name = f"{name}, {error.strerror}"
    if frame is None:
        return name
    return f"{name} at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
