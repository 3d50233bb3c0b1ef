"""The command line with a simulated cluster whose pods start and stop within 0.2 s.

Run as a program, it takes the arguments of `reactive-desched`.
"""

import sys
from functools import partial
from typing import Final

from reactive_desched.cli import main
from reactive_desched.sim import command
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.run import Landscape

_PACE: Final = Pace(start_s=0.05, shutdown_s=0.05, jitter_s=0.1)

if __name__ == "__main__":
    # a plain assignment is one that mypy refuses
    setattr(command, "Landscape", partial(Landscape, pace=_PACE))  # noqa: B010 -- as above
    sys.exit(main())
