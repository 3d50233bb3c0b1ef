"""The demo's cluster: `reactive-desched sim`, empty, in a process of its own."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from reactive_desched.errors import ReactiveDeschedError

START_WITHIN_S = 30.0


@asynccontextmanager
async def open_cluster(kubeconfig: Path) -> AsyncIterator[str]:
    """Run an empty simulated cluster while the block lasts; yields its URL."""
    command = [
        *(sys.executable, "-m", "reactive_desched", "sim", "--nodes", "0", "--pods", "0"),
        *("--write-kubeconfig", str(kubeconfig)),
    ]
    async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            yield await _address(TextReceiveStream(process.stdout))
        finally:
            process.terminate()


async def _address(output: TextReceiveStream) -> str:
    """Return the URL, which is the first line the cluster prints."""
    said = ""
    with anyio.move_on_after(START_WITHIN_S):
        async for text in output:
            said += text
            if "\n" in said:
                return said.split("\n", 1)[0]
    raise ReactiveDeschedError(f"the simulated cluster did not start: {said.strip()}")
