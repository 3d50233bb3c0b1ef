"""Says for `sim` and `demo` how to install the simulator, which is a package of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from reactive_desched._version import __version__
from reactive_desched.errors import SimulatorNotInstalled

__all__ = ["INSTALL", "requires_simulator"]

INSTALL: Final = f"pip install 'reactive-desched[sim]=={__version__}'"
_PACKAGES: Final = ("reactive_desched.demo", "reactive_desched.sim")


@contextmanager
def requires_simulator() -> Iterator[None]:
    """Raise SimulatorNotInstalled where an import inside finds no simulator."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(_PACKAGES):
            raise
        raise SimulatorNotInstalled(
            f"the simulated cluster is not installed here, and the image does not hold it: "
            f"{INSTALL} adds it, and a clone has it after `make install`"
        ) from error
