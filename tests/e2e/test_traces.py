"""A real collector of OpenTelemetry takes traces, metrics and log lines of a controller."""

import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reactive_desched.journal.events import read_events
from reactive_desched.model.event_types import short_type
from tests.e2e.conftest import do_without, where_they_are
from tests.support.component import ChildProcess
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.ports import free_port
from tests.support.simulator_process import TAINT_POLICY, simulator, taint_settings

pytestmark = pytest.mark.real

SPAN = re.compile(
    r"Span #\d+\n +Trace ID +: (\w+)\n +Parent ID +: (\w*)\n +ID +: (\w+)\n +Name +: (\S+)\n"
)


METRIC = re.compile(r"     -> Name: (\S+)\n")
LINE = re.compile(r"Body: Str\((.*)\)\n")


def collector(folder: Path, port: int, protocol: str = "http") -> ChildProcess:
    """Return a collector that is not started, which writes what it takes to its log."""
    program = json.loads(where_they_are())["otelcol"] or do_without(["otelcol"])
    config = {
        "receivers": {"otlp": {"protocols": {protocol: {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"debug": {"verbosity": "detailed", "sampling_initial": 1_000_000}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                signal: {"receivers": ["otlp"], "exporters": ["debug"]}
                for signal in ("traces", "metrics", "logs")
            },
        },
    }
    file = folder / "collector.json"
    file.write_text(json.dumps(config))
    return ChildProcess("otelcol", (program, "--config", str(file)), folder / "collector.log")


@pytest.mark.parametrize("by", ["settings", "flags", "environment"])
def test_every_event_of_a_case_is_a_span_in_the_collector_also_after_it_was_away(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    settings = taint_settings()
    options: tuple[str, ...] = ()
    if by == "settings":
        url = f"http://127.0.0.1:{port}/v1/traces"
        settings = taint_settings(f"sinks: {{otlp: {{url: '{url}', compression: gzip}}}}")
    elif by == "flags":
        options = (f"--otel-collector-endpoint=127.0.0.1:{port}",)
    else:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    taking = collector(tmp_path, port, "http" if by == "settings" else "grpc")
    with (
        simulator(tmp_path, 40) as cluster,
        ControllerProcess(
            tmp_path, cluster.kubeconfig, TAINT_POLICY, settings, options
        ) as controller,
    ):
        cluster.set_taints("node-1", "gpu")
        wait_until(lambda: events(controller), within_s=120, what="replacements are Ready")
        taking.start()
        try:
            wait_until(
                lambda: Counter(spans(taking)) == Counter(events(controller)),
                within_s=60,
                what="the collector has a span of each event",
            )
        finally:
            taking.kill()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_metrics_and_log_lines_arrive_and_the_last_ones_at_the_end(
    tmp_path: Path, protocol: str
) -> None:
    port = free_port()
    at = f"url: 'http://127.0.0.1:{port}"
    metrics, logs = f"{at}/v1/metrics', interval: 1s", f"{at}/v1/logs'"
    if protocol == "grpc":
        metrics, logs = f"{at}', protocol: grpc, interval: 1s", f"{at}', protocol: grpc"
    settings = taint_settings(f"telemetry: {{metrics: {{{metrics}}}, logs: {{{logs}}}}}")
    taking = collector(tmp_path, port, protocol)
    with (
        simulator(tmp_path, 40) as cluster,
        ControllerProcess(tmp_path, cluster.kubeconfig, TAINT_POLICY, settings) as controller,
    ):
        cluster.set_taints("node-1", "gpu")
        wait_until(lambda: events(controller), within_s=120, what="replacements are Ready")
        taking.start()
        try:
            wait_until(
                lambda: metric_names(controller) <= taken(taking, METRIC),
                within_s=60,
                what="the collector has every metric that is served",
            )
            wait_until(
                lambda: "evicted" in taken(taking, LINE),  # they are tried again by themselves
                within_s=60,
                what="the collector has the log lines",
            )
            assert controller.stop() == 0
            last = {"the controller is stopping", "evicted"}
            wait_until(
                lambda: last <= taken(taking, LINE),  # which the collector writes as it has time
                within_s=60,
                what="the collector has the last lines",
            )
        finally:
            taking.kill()


def test_a_sweep_sends_its_metrics_and_lines_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    (policy := tmp_path / "policy.yaml").write_text(TAINT_POLICY)
    argv = [sys.executable, "-m", "reactive_desched", "run", "--once", "--policy", str(policy)]
    taking = collector(tmp_path, port)
    with simulator(tmp_path, 40) as cluster:
        options = ["--kubeconfig", str(cluster.kubeconfig), "--journal", str(tmp_path / "journal")]
        taking.start()
        try:
            wait_until(lambda: answers(port), within_s=60, what="the collector answers")
            subprocess.run([*argv, *options, "--listen=127.0.0.1:0"], check=True, timeout=120)
            wait_until(
                lambda: (
                    "the sweep is complete" in taken(taking, LINE)
                    and "descheduler_loop_duration_seconds" in taken(taking, METRIC)
                ),
                within_s=60,
                what="the collector has the last line and metrics of the sweep",
            )
        finally:
            taking.kill()


def test_a_collector_that_does_not_answer_holds_the_end_for_no_whole_request(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{{url: 'http://127.0.0.1:{silent.getsockname()[1]}/v1/all', timeout: 1m}}"
        settings = taint_settings(
            f"telemetry: {{metrics: {url}, logs: {url}}}", f"sinks: {{otlp: {url}}}"
        )
        with (
            simulator(tmp_path, 40) as cluster,
            ControllerProcess(tmp_path, cluster.kubeconfig, TAINT_POLICY, settings) as controller,
        ):
            cluster.set_taints("node-1", "gpu")
            wait_until(lambda: events(controller), within_s=120, what="replacements are Ready")
            began = time.monotonic()
            assert controller.stop() == 0
            assert time.monotonic() - began < 20  # a request may take a minute


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def metric_names(controller: ControllerProcess) -> set[str]:
    """Return the names that the controller serves, those of histograms without their endings."""
    families = text_string_to_metric_families(controller.page("/metrics"))
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.samples
    }


def taken(taking: ChildProcess, pattern: re.Pattern[str]) -> set[str]:
    """Return what the collector has written of this."""
    return {*pattern.findall(taking.log.read_text())}


def spans(taking: ChildProcess) -> list[tuple[str, str, str]]:
    """Return trace, span and type of each span that the collector has taken."""
    text = taking.log.read_text() if taking.log.exists() else ""
    return [(trace, span, name) for trace, _, span, name in SPAN.findall(text)]


def events(controller: ControllerProcess) -> list[tuple[str, str, str]]:
    """Return the same of each event of a case; none before a replacement is Ready."""
    found = []
    for event in read_events(controller.journal):
        kind = short_type(event.type)
        if kind.partition(".")[0] in ("finding", "decision", "eviction"):
            _, trace, span, _ = event.traceparent.split("-")
            found.append((trace, span, kind))
    return found if any(kind == "eviction.followed_up" for *_, kind in found) else []
