"""Runs what the benchmark asks of a process: one line of JSON in, one line of JSON out.

The benchmark asks two processes in turn, so that a machine that changes its speed changes both.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio.to_thread

Command = Callable[..., Awaitable[object]]  # each takes what it needs, by name


async def serve_commands(started: object, commands: Mapping[str, Command]) -> None:
    """Print `started`, then run each command that standard input names, until it ends.

    A command is an object with the name in `do` and the arguments beside it.
    """
    _print(started)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        arguments: dict[str, Any] = json.loads(line)  # Any: each command has arguments of its own
        _print(await commands[arguments.pop("do")](**arguments))


def _print(result: object) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
