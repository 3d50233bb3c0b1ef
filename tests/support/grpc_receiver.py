"""A collector that speaks gRPC, for tests: it keeps what it is sent and answers as scripted."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = ["GrpcReceiver"]

METHODS: Mapping[str, tuple[Any, Any]] = {
    "trace.v1.TraceService": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "metrics.v1.MetricsService": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "logs.v1.LogsService": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}


class GrpcReceiver:
    """A server that keeps what it is sent and answers with the next statuses, at last with OK.

    One that `hangs_up` closes the connection after each answer. Each answer says that it `drops`
    something, by the fields of a partial success.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []  # messages of any signal
        self.metadata: list[dict[str, str]] = []
        self.script: list[tuple[Status, str]] = []
        self.url = ""
        self.hangs_up = False
        self.drops: Mapping[str, Any] = {}

    def answer(self, *statuses: Status, text: str = "") -> None:
        """Answer the next requests like this."""
        self.script += [(status, text) for status in statuses]

    @asynccontextmanager
    async def serving(
        self, port: int = 0, tls: SSLContext | None = None
    ) -> AsyncIterator["GrpcReceiver"]:
        """Serve on loopback, at `url`."""
        server = Server([self])
        await server.start("127.0.0.1", port, ssl=tls)
        listening: Any = server._server  # it says the port nowhere else
        port = listening.sockets[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the methods as grpclib asks for them."""
        return {
            f"/opentelemetry.proto.collector.{name}/Export": Handler(
                self._export, Cardinality.UNARY_UNARY, request, reply
            )
            for name, (request, reply) in METHODS.items()
        }

    async def _export(self, stream: Stream[Any, Any]) -> None:
        self.requests.append(await stream.recv_message())
        self.metadata.append({name: str(value) for name, value in (stream.metadata or {}).items()})
        status, text = self.script.pop(0) if self.script else (Status.OK, "")
        if status is not Status.OK:
            raise GRPCError(status, text)
        reply = stream._send_type()
        for name, value in self.drops.items():
            setattr(reply.partial_success, name, value)
        await stream.send_message(reply)
        if self.hangs_up:
            transport = stream._stream._transport
            asyncio.get_running_loop().call_later(0.01, transport.close)
