"""A real Prometheus that scrapes an exporter of ours, behind a gate that asks for a token over TLS.

Clusters put such a gate in front of Prometheus, which knows no tokens of its own.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Self

from tests.support.authority import CertificateAuthority
from tests.support.component import ChildProcess
from tests.support.control_plane import wait_until
from tests.support.http_server import answer_request, serving
from tests.support.ports import free_port

USED: str = "node_used_ratio"
"""The metric of the exporter: how much of a node is used, from 0 to 1, by `instance`."""

ERRORS: str = "service_errors"
"""The metric of a service: its errors now, by `namespace`."""


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
            exporter = stack.enter_context(serving(self._export))
            self._inner = stack.enter_context(
                prometheus_of(self.program, self.folder, f"127.0.0.1:{exporter}", job="nodes")
            )
            gate = stack.enter_context(serving(self._guard, tls))
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
        answer_request(request, 200, "".join(lines).encode(), "text/plain; version=0.0.4")

    def _guard(self, request: BaseHTTPRequestHandler) -> None:
        """Pass on what has the token."""
        if request.headers["Authorization"] != f"Bearer {self.token}":
            self.refused += 1
            answer_request(request, 401, b"Unauthorized", "text/plain")
            return
        body = request.rfile.read(int(request.headers["Content-Length"] or 0))
        kind = {"Content-Type": request.headers["Content-Type"] or ""}
        passed_on = urllib.request.Request(f"{self._inner}{request.path}", body or None, kind)
        with urllib.request.urlopen(passed_on) as answer:
            answer_request(request, answer.status, answer.read(), answer.headers["Content-Type"])


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
    with MonitoringProcess.prometheus(program, folder, config) as server:
        yield server.url


@dataclass
class MonitoringProcess(AbstractContextManager["MonitoringProcess"]):
    """Prometheus or Alertmanager, which can be stopped, and started again at the same address."""

    process: ChildProcess
    url: str

    @classmethod
    def prometheus(cls, program: Path, folder: Path, config: Mapping[str, object]) -> Self:
        """Return a Prometheus of this configuration."""
        port = free_port()
        # What is sent before an Alertmanager is found is lost, and by default repeated in a minute.
        soon = "--rules.alert.resend-delay=5s"
        return cls._of("prometheus", program, folder, config, port, "--storage.tsdb.path", soon)

    @classmethod
    def alertmanager(cls, program: Path, folder: Path, config: Mapping[str, object]) -> Self:
        """Return an Alertmanager of this configuration."""
        port = free_port()
        alone = "--cluster.listen-address="
        return cls._of("alertmanager", program, folder, config, port, "--storage.path", alone)

    @classmethod
    def _of(
        cls,
        name: str,
        program: Path,
        folder: Path,
        config: Mapping[str, object],
        port: int,
        storage: str,
        *flags: str,
    ) -> Self:
        file = folder / f"{name}.yml"
        file.write_text(json.dumps(config))
        argv = (
            str(program),
            f"--config.file={file}",
            f"{storage}={folder / name}",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        )
        process = ChildProcess(name, argv, folder / f"{name}.log")
        return cls(process, f"http://127.0.0.1:{port}")

    def __enter__(self) -> Self:
        """Start it."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process.start()
        wait_until(self._is_ready, within_s=60, what=f"{self.process.name} is ready")

    def stop(self) -> None:
        """End it, as a lost machine would."""
        self.process.kill()

    def _is_ready(self) -> bool:
        self.process.ensure_alive()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@dataclass
class MeasuredService(AbstractContextManager["MeasuredService"]):
    """A service that counts its errors, the Prometheus that scrapes it, and an Alertmanager.

    `errors` are those of each namespace, None while its exporter is down. The alert ServiceErrors
    fires for each namespace with more than five, and Watchdog always.
    """

    prometheus_program: Path
    alertmanager_program: Path
    folder: Path
    errors: dict[str, float] | None = field(default_factory=dict)
    prometheus: MonitoringProcess = field(init=False)
    alertmanager: MonitoringProcess = field(init=False)
    _open: ExitStack = field(init=False, default_factory=ExitStack)

    def __enter__(self) -> Self:
        """Start everything."""
        with ExitStack() as stack:
            exporter = stack.enter_context(serving(self._export))
            config = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
            self.alertmanager = stack.enter_context(
                MonitoringProcess.alertmanager(self.alertmanager_program, self.folder, config)
            )
            self.prometheus = stack.enter_context(
                MonitoringProcess.prometheus(
                    self.prometheus_program, self.folder, self._config(exporter)
                )
            )
            wait_until(self._is_watched, within_s=60, what="Alertmanager has the alert Watchdog")
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        self._open.close()

    def silence(self, **labels: str) -> None:
        """Silence the alerts with these labels for an hour."""
        now = datetime.now(UTC)
        matchers = [
            {"name": name, "value": value, "isRegex": False} for name, value in labels.items()
        ]
        body = {
            "matchers": matchers,
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": "a person",
            "comment": "it is known",
        }
        url, kind = f"{self.alertmanager.url}/api/v2/silences", {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), kind)):
            pass

    def _is_watched(self) -> bool:
        with urllib.request.urlopen(f"{self.alertmanager.url}/api/v2/alerts") as answer:
            return any(each["labels"]["alertname"] == "Watchdog" for each in json.load(answer))

    def _config(self, exporter: int) -> Mapping[str, object]:
        rules = self.folder / "rules.yml"
        fires = {"alert": "ServiceErrors", "expr": f"{ERRORS} > 5", "labels": {"severity": "page"}}
        group = {"name": "all", "rules": [fires, {"alert": "Watchdog", "expr": "vector(1)"}]}
        rules.write_text(json.dumps({"groups": [group]}))
        scraped = {
            "job_name": "service",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}],
        }
        told = self.alertmanager.url.removeprefix("http://")
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [scraped],
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [told]}]}]},
        }

    def _export(self, request: BaseHTTPRequestHandler) -> None:
        if self.errors is None:
            answer_request(request, 500, b"down", "text/plain")
            return
        lines = (f'{ERRORS}{{namespace="{of}"}} {count}\n' for of, count in self.errors.items())
        answer_request(request, 200, "".join(lines).encode(), "text/plain; version=0.0.4")
