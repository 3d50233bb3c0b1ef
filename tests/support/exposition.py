"""What /metrics says of some collectors, as numbers by name and labels."""

import re

from reactive_desched.telemetry.metrics import Collector
from reactive_desched.telemetry.registry import MetricsRegistry


def exposed(*collectors: Collector) -> dict[str, float]:
    """Return every sample of these collectors, without the prefix of their names."""
    registry = MetricsRegistry()
    registry.register(*collectors)
    return samples_of(registry)


def samples_of(registry: MetricsRegistry) -> dict[str, float]:
    """Return every sample of our own families, without the prefix of their names."""
    text = registry.exposition("")[0].decode()
    lines = re.findall(r"^reactive_desched_(\S+?(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}
