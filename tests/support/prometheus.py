"""A real Prometheus that scrapes an exporter of ours, behind a gate that asks for a token over TLS.

Clusters put such a gate in front of Prometheus, which knows no tokens of its own.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import SSLContext
from threading import Thread
from typing import Self

from tests.support.authority import CertificateAuthority
from tests.support.component import ChildProcess
from tests.support.control_plane import free_ports, wait_until

USED: str = "node_used_ratio"
"""The metric of the exporter: how much of a node is used, from 0 to 1, by `instance`."""

Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class GuardedPrometheus(AbstractContextManager["GuardedPrometheus"]):
    """Prometheus and its exporter, which shows what `used` returns, node by node.

    `url` is the gate's, which answers who has the `token`; `authority` is what to trust. `refused`
    counts the requests without the token.
    """

    program: Path
    folder: Path
    used: Callable[[], Mapping[str, float]]
    token: str
    refused: int = 0
    url: str = field(init=False, default="")
    _open: ExitStack = field(init=False, default_factory=ExitStack)
    _inner: str = field(init=False, default="")

    def __enter__(self) -> Self:
        """Start everything, and wait until Prometheus has scraped."""
        authority = CertificateAuthority()
        authority.write(self.authority)
        tls = authority.server_context(self.folder, "localhost")
        with ExitStack() as stack:
            exporter = stack.enter_context(_serving(self._export))
            self._inner = stack.enter_context(
                prometheus_of(self.program, self.folder, f"127.0.0.1:{exporter}", job="nodes")
            )
            gate = stack.enter_context(_serving(self._guard, tls))
            self.url = f"https://localhost:{gate}"
            wait_until(self.query, within_s=60, what="Prometheus has scraped the exporter")
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        self._open.close()

    @property
    def authority(self) -> Path:
        """The certificate to trust."""
        return self.folder / "authority.crt"

    def query(self) -> dict[str, float]:
        """Return what Prometheus says now of each node."""
        with urllib.request.urlopen(f"{self._inner}/api/v1/query?query={USED}") as answer:
            found = json.load(answer)["data"]["result"]
        return {each["metric"]["instance"]: float(each["value"][1]) for each in found}

    def _export(self, request: BaseHTTPRequestHandler) -> None:
        lines = (f'{USED}{{instance="{node}"}} {used}\n' for node, used in self.used().items())
        _answer(request, 200, "".join(lines).encode(), "text/plain; version=0.0.4")

    def _guard(self, request: BaseHTTPRequestHandler) -> None:
        """Pass on what has the token."""
        if request.headers["Authorization"] != f"Bearer {self.token}":
            self.refused += 1
            _answer(request, 401, b"Unauthorized", "text/plain")
            return
        body = request.rfile.read(int(request.headers["Content-Length"] or 0))
        kind = {"Content-Type": request.headers["Content-Type"] or ""}
        passed_on = urllib.request.Request(f"{self._inner}{request.path}", body or None, kind)
        with urllib.request.urlopen(passed_on) as answer:
            _answer(request, answer.status, answer.read(), answer.headers["Content-Type"])


@contextmanager
def prometheus_of(
    program: Path, folder: Path, target: str, job: str, scraped: Mapping[str, object] | None = None
) -> Iterator[str]:
    """Run Prometheus, which scrapes one address each second, while the block lasts; yield its URL.

    It keeps labels of the address that it would give itself, such as `instance`. `scraped` is more
    of its scrape configuration.
    """
    scrape = {
        **(scraped or {}),
        "job_name": job,
        "honor_labels": True,
        "static_configs": [{"targets": [target]}],
    }
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    (port,) = free_ports(1)
    argv = (
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    process = ChildProcess("prometheus", argv, folder / "prometheus.log")
    process.start()
    try:
        wait_until(lambda: _is_ready(process, port), within_s=60, what="Prometheus is ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()


def _is_ready(process: ChildProcess, port: int) -> bool:
    process.ensure_alive()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _answer(request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def _serving(respond: Respond, tls: SSLContext | None = None) -> Iterator[int]:
    """Serve GET and POST on a loopback port while the block lasts; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def do_POST(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
