"""Measured use from a JSON file: {"node-1": {"cpu": 1500, "memory": 1073741824}}."""

import json
from collections.abc import Iterable
from pathlib import Path

from anyio.to_thread import run_sync
from pydantic import Field

from reactive_desched.api.usage_source import UsagePlugin, UsageSourceSettings
from reactive_desched.errors import UsageUnavailable
from reactive_desched.model.usage import NodeUsage


class NodeFileSettings(UsageSourceSettings):
    """Measured use in a file."""

    path: str = Field(default="/run/node-use.json", description="The file.")


class NodeFile(UsagePlugin[NodeFileSettings]):
    """What the file says, as of when it was written: cpu in milli-cores, memory in bytes."""

    settings = NodeFileSettings

    async def measure(self) -> Iterable[NodeUsage]:
        """Read the file in a thread."""
        return await run_sync(self._read)

    def _read(self) -> list[NodeUsage]:
        file = Path(self.config.path)
        try:
            nodes, written_s = json.loads(file.read_bytes()), file.stat().st_mtime
        except (OSError, ValueError) as error:
            raise UsageUnavailable(f"{file} cannot be read: {error}") from error
        return [NodeUsage(self.host.name, node, use, written_s) for node, use in nodes.items()]
