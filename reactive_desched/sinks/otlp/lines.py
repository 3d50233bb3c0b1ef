"""Turns log lines into the request that exports them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from anyio.lowlevel import checkpoint
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import (
    SEVERITY_NUMBER_DEBUG,
    SEVERITY_NUMBER_ERROR,
    SEVERITY_NUMBER_FATAL,
    SEVERITY_NUMBER_INFO,
    SEVERITY_NUMBER_UNSPECIFIED,
    SEVERITY_NUMBER_WARN,
    LogRecord,
    ResourceLogs,
    ScopeLogs,
    SeverityNumber,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reactive_desched.sinks.otlp.messages import SCOPE, any_value, attributes

_SEVERITIES: Final[Mapping[str, "SeverityNumber.ValueType"]] = {
    "debug": SEVERITY_NUMBER_DEBUG,
    "info": SEVERITY_NUMBER_INFO,
    "warning": SEVERITY_NUMBER_WARN,
    "error": SEVERITY_NUMBER_ERROR,
    "critical": SEVERITY_NUMBER_FATAL,
}
LINES_AT_ONCE: Final = 24
"""So many are written in one turn of the event loop: half a millisecond."""

_MAX_NS: Final = 2**64
_OF_THE_RECORD: Final = frozenset({"timestamp", "level", "event"})


async def request(lines: Sequence[Mapping[str, Any]], source: Resource, now_ns: int) -> bytes:
    """Return the request that exports the lines, which are as they were written."""
    message = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=source, scope_logs=[ScopeLogs(scope=SCOPE)])]
    )
    records = message.resource_logs[0].scope_logs[0].log_records
    for number, line in enumerate(lines, 1):
        records.append(_record(line, now_ns))
        if number % LINES_AT_ONCE == 0:
            await checkpoint()
    found: bytes = message.SerializeToString()
    return found


def _record(line: Mapping[str, Any], now_ns: int) -> LogRecord:
    level = str(line.get("level", ""))
    return LogRecord(
        time_unix_nano=_ns(line.get("timestamp"), now_ns),
        observed_time_unix_nano=now_ns,
        severity_number=_SEVERITIES.get(level, SEVERITY_NUMBER_UNSPECIFIED),
        severity_text=level.upper(),
        body=any_value(line.get("event", "")),
        attributes=attributes(
            {name: value for name, value in line.items() if name not in _OF_THE_RECORD}
        ),
    )


def _ns(timestamp: object, now_ns: int) -> int:
    try:
        ns = int(datetime.fromisoformat(str(timestamp)).timestamp() * 1e6) * 1_000
    except (ValueError, OverflowError):  # a line of another package may have such a field
        return now_ns
    return ns if 0 <= ns < _MAX_NS else now_ns
