"""One real control plane for all end-to-end tests, and a corner of it for each of them."""

import gc
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.audit_crosscheck import (
    AuditCrosscheck,
    disagreements,
    journalled_evictions,
    unpaired_intents,
)
from tests.support.authority import CertificateAuthority
from tests.support.control_plane import ControlPlane, RealTools
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.fork_server import ForkServer
from tests.support.helm import Helm
from tests.support.kafka_broker import KafkaBroker, KafkaTools, ServerTls
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace
from tests.support.ports import machine_lock
from tests.support.replays import replay_objections
from tests.support.terminal import PS1, Terminal
from tools.real import axe
from tools.real.chromium import find

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = SERVICE_ACCOUNT = "reactive-desched"
# As people run it, but for the waits and the pace, which unit tests check on virtual time.
SETTINGS = (
    """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 200ms, maxWait: 2s}
evictions: {retry: {initial: 1s, max: 5s}}
usage: {prometheus: {interval: 1s}}
"""
    + UNLIMITED
)
MISSING = "REAL PARTS MISSING"
KAFKA_USERS = {"desched": "the-first-password"}


SECONDS = {
    "same_programs": 400,
    "leader": 380,
    "gangs": 220,  # a control plane of its own
    "outages": 220,
    "consolidation": 220,
    "kafka": 180,  # brokers that are shared by the tests of a worker
    "kafka_refusals": 150,
    "brakes": 170,
    "migration": 150,
    "migration_places": 150,
    "node_conditions": 150,
    "judgement": 150,
    "devices": 150,
    "pages": 150,
    "making_room": 120,
    "fit": 110,
    "balance": 110,
    "chart": 100,
    "who_ended_it": 100,
    "storms": 100,
    "migration_kills": 90,
    "packing": 80,
    "proxied": 80,
    **dict.fromkeys(("chart_runs", "health"), 70),
    "fit_in_flux": 60,
    "image": 60,
    **dict.fromkeys(("jobs", "kafka_cluster", "moves", "time_slider"), 50),
    **dict.fromkeys(("journal", "readme", "drop_in", "limits", "live_page", "measured_use"), 40),
    **dict.fromkeys(("comparison", "impersonation", "installed", "tutorial", "sbom"), 30),
}
"""About how long a worker has a file of half a minute or more: what begins last ends last."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; xdist would begin with those of the most tests."""
    items.sort(key=lambda item: -SECONDS.get(item.path.stem.removeprefix("test_"), 0))


@pytest.fixture(scope="session", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Have what was left open fail the last test: the end of an xdist worker shows no warning."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def real_tools() -> RealTools:
    """The built binaries; without them CI fails, and elsewhere every test here is skipped."""
    tools = RealTools.parse(where_they_are())
    if tools.missing:
        do_without(tools.missing)
    return tools


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Java and the jars of Kafka; without them, as above."""
    tools = KafkaTools.parse(where_they_are())
    if tools.missing:
        do_without(tools.missing)
    return tools


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The browser; without one, as above."""
    return find(os.environ) or do_without(["Chromium"])


@pytest.fixture(scope="session")
def axe_script() -> str:
    """The script of axe-core, which looks for accessibility faults; without it, as above."""
    return (axe.find(os.environ) or do_without(["axe-core"])).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm; without it CI fails, and elsewhere every test here is skipped."""
    path = json.loads(where_they_are())["helm"] or do_without(["Helm"])
    return Helm(Path(path), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def sig_descheduler() -> Path:
    """The binary of the SIG descheduler; without it, as above."""
    return Path(json.loads(where_they_are())["descheduler"] or do_without(["the SIG descheduler"]))


@pytest.fixture(scope="session")
def koord_descheduler() -> Path:
    """The binary of koordinator's descheduler, where there is one: it takes minutes to build."""
    if not (found := os.environ.get("KOORD_DESCHEDULER_BIN")):
        pytest.skip("set KOORD_DESCHEDULER_BIN to a binary of koordinator's descheduler")
    return Path(found)


@pytest.fixture(scope="session")
def operator() -> Path:
    """The binary of an operator made with controller-runtime; without it, as above."""
    return Path(json.loads(where_they_are())["operator"] or do_without(["the operator"]))


@cache
def where_they_are() -> str:
    """Ask the build script, which builds nothing now."""
    build = (sys.executable, str(ROOT / "tools" / "real" / "build.py"), "--where")
    return subprocess.run(build, check=True, capture_output=True, text=True).stdout


def do_without(missing: Sequence[str]) -> NoReturn:
    """End the test: in CI as failed, elsewhere as skipped."""
    told = f"{MISSING}: {', '.join(missing)}; build them with `make real-tools`"
    if os.environ.get("CI") == "true":
        pytest.fail(told)
    pytest.skip(told)


@pytest.fixture(scope="session")
def broker(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A Kafka broker, shared: each test keeps to its own topic.

    Python's strict checks refuse its authority. USER.crt and USER.key in its folder say who
    somebody is.
    """
    folder = tmp_path_factory.mktemp("kafka")
    authority = CertificateAuthority(is_lax=True)
    certificate, key = authority.issue(folder, "broker", "localhost")
    trusted = authority.write(folder / "authority.crt").read_text()
    for user in KAFKA_USERS:
        authority.issue(folder, user)
    tls = ServerTls(certificate.read_text(), key.read_text(), trusted)
    with KafkaBroker(kafka_tools, folder, KAFKA_USERS, tls) as broker:
        yield broker


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """The name of this test's own topic, which is not made yet; the broker runs."""
    broker.ensure_running()
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{words[5:52].strip('-')}-{os.urandom(5).hex()}"


@pytest.fixture(scope="session")
def control_plane(
    real_tools: RealTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The cluster, shared: each test keeps to its own playground in it."""
    with ControlPlane(real_tools, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """The controller's credentials: a ServiceAccount with the role in deploy/, and nothing else."""
    for name in ("namespace.yaml", "rbac.yaml"):
        control_plane.kubectl().run("apply", "-f", str(ROOT / "deploy" / "base" / name))
    return control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def new_playground(control_plane: ControlPlane, request: pytest.FixtureRequest) -> E2ENamespace:
    """Return a namespace that is named after the test, and by no other one."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    space = f"{words[5:29].strip('-')}-{os.urandom(5).hex()}"
    return E2ENamespace(control_plane.kubectl(), space)


@pytest.fixture
def playground(
    control_plane: ControlPlane, request: pytest.FixtureRequest
) -> Iterator[E2ENamespace]:
    """A namespace and nodes of this test's own."""
    with new_playground(control_plane, request) as ours:
        yield ours


@pytest.fixture
def jobs(playground: E2ENamespace) -> E2ENamespace:
    """A playground whose cluster has the kind, with the rights of deploy/migration."""
    for name in ("podmigrationjobs.yaml", "rbac.yaml", "placeholders/rbac.yaml"):
        playground.kubectl.run("apply", "-f", str(ROOT / "deploy" / "migration" / name))
    definition = "crd/podmigrationjobs.scheduling.koordinator.sh"
    playground.kubectl.run("wait", "--for=condition=Established", definition, "--timeout=60s")
    return playground


def new_referee(control_plane: ControlPlane) -> AuditCrosscheck:
    """Return who compares what the server writes down from now on with what the controller does."""
    user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    return AuditCrosscheck(control_plane.audit, user, control_plane.audit.size_bytes())


@pytest.fixture
def referee(control_plane: ControlPlane) -> AuditCrosscheck:
    """Compares what the server wrote down with what the controller did, from now on."""
    return new_referee(control_plane)


@pytest.fixture(scope="session")
def programs() -> Iterator[ForkServer]:
    """Starts the controller in a tenth of the time that a new interpreter takes."""
    with ForkServer({}) as running:
        yield running


@pytest.fixture
def run_controller(
    control_plane: ControlPlane,
    kubeconfig: Path,
    playground: E2ENamespace,
    referee: AuditCrosscheck,
    programs: ForkServer,
    tmp_path: Path,
) -> RunController:
    """Runs the controller over this test's playground; at the end, the books must balance."""

    @contextmanager
    def run(*options: str) -> Generator[ControllerProcess]:
        policy = playground.policy()
        settings = SETTINGS if playground.settings is None else playground.settings
        with ControllerProcess(
            tmp_path, kubeconfig, policy, settings, options, programs
        ) as controller:
            yield controller
            assert controller.stop() == 0, controller.tail()
        assert disagreements(referee.evicted(), journalled_evictions(controller.journal)) == []
        assert unpaired_intents(controller.journal) == []
        assert referee.always_forbidden(control_plane.ready_since) == set()

    return run


@pytest.fixture(autouse=True)
def decides_the_same_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Replay what the controllers of the test recorded, once they have ended."""
    yield
    if objections := tuple(replay_objections(tmp_path, request.node.nodeid.rpartition("/")[2])):
        pytest.fail("\n\n".join(objections), pytrace=False)


@pytest.fixture(scope="module")
def default_port() -> Iterator[None]:
    """Hold the port of commands without settings: one module of tests at a time may use it."""
    with machine_lock("default-port"):
        with socket.socket() as port:
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind(("127.0.0.1", 10258))  # or another controller would answer
        yield


@pytest.fixture
def terminal(real_tools: RealTools, default_port: None, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in a folder that looks like an installed clone, with kubectl on the path."""
    del default_port
    for name in ("deploy", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").symlink_to(real_tools.paths["kubectl"])
    path = f"{tools}:/usr/bin:/bin"
    opened = Terminal(tmp_path, {"PATH": path, "HOME": str(tmp_path), "PS1": PS1, "TERM": "dumb"})
    try:
        yield opened
    finally:
        opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what there was and the last words of every process beside a failure."""
    report = yield
    if report.failed:
        try:
            report.sections += evidence(getattr(item, "funcargs", {}))
        except pytest.fail.Exception as timeout:  # the test's time, which includes ours, is over
            report.sections.append(("no evidence", str(timeout)))
    return report


def evidence(fixtures: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what there was beside a failed test: a title, and a text."""
    namespace = ""
    if isinstance(playground := fixtures.get("playground"), E2ENamespace):
        namespace = playground.namespace
        yield f"namespace {namespace}", playground.describe()
    if isinstance(folder := fixtures.get("tmp_path"), Path):
        for log in sorted(folder.rglob("*.log")):
            yield f"end of {log}", log.read_text(errors="replace")[-6000:]
    if isinstance(plane := fixtures.get("control_plane"), ControlPlane):
        for name, text in plane.log_tails(namespace):
            yield f"end of {name}.log", text
    if isinstance(broker := fixtures.get("broker"), KafkaBroker):
        yield "end of kafka.log", broker.tail()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count, where nobody can overlook it, what did not run for want of its parts."""
    skipped = [r for r in terminalreporter.getreports("skipped") if MISSING in str(r.longrepr)]
    if skipped:
        terminalreporter.section(f"{MISSING}: {len(skipped)} tests did not run", red=True)
        terminalreporter.line("build them with: make real-tools")
