"""The demo's cluster: `reactive-desched sim`, empty, in a process of its own."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from reactive_desched.errors import ReactiveDeschedError

START_TIMEOUT_S = 30.0


@asynccontextmanager
async def open_demo_cluster(kubeconfig: Path) -> AsyncIterator[str]:
    """Run an empty simulated cluster while the block lasts; yields its URL.

    The cluster also ends when this process does without leaving the block, as after SIGKILL.
    """
    command = [
        *(sys.executable, "-m", "reactive_desched", "sim", "--nodes", "0", "--pods", "0"),
        *("--write-kubeconfig", str(kubeconfig), "--until-stdin-ends"),
    ]
    async with await anyio.open_process(
        command, stdin=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert process.stdout is not None
            yield await _read_url(TextReceiveStream(process.stdout))
        finally:
            process.terminate()


async def _read_url(output: TextReceiveStream) -> str:
    """Return the URL, which is the first line the cluster prints."""
    received = ""
    with anyio.move_on_after(START_TIMEOUT_S):
        async for text in output:
            received += text
            if "\n" in received:
                return received.split("\n", 1)[0]
    raise ReactiveDeschedError(f"the simulated cluster did not start: {received.strip()}")
