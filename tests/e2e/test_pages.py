"""The commands of every page, typed in order into a terminal, on one simulated cluster.

A page has made-up names; `Reading.names` has what they are here. Simulated pods run no containers,
so what `kubectl exec` and `kubectl logs` would do inside the controller's pod is done beside the
controller of this test, once kubectl has found the Deployment that the page names.
"""

import json
import math
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import DISRUPTION_OBSERVED
from reactive_desched.errors import NotRecorded
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.reader import state_at
from reactive_desched.text.times import format_second
from tests.e2e.conftest import do_without
from tests.recording.test_imports import KWOK, pod, trace
from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.doc_commands import DocCommand, commands, typed
from tests.support.koordinator_files import migration_controller
from tests.support.kubectl import Kubectl
from tests.support.terminal import PS1, Terminal
from tools.real import prometheus

# The wait for the default port, which other modules hold for minutes, does not count.
pytestmark = [pytest.mark.real, pytest.mark.timeout(400, func_only=True)]

ROOT = Path(__file__).resolve().parents[2]
CONTROLLER = "http://127.0.0.1:10258"
KINDS = (
    "csinodes,daemonsets,deployments,jobs,namespaces,nodes,persistentvolumeclaims,"
    "persistentvolumes,poddisruptionbudgets,pods,priorityclasses,replicasets,statefulsets"
)
POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 60}}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods, DrainNodes]}
    balance: {enabled: [RemoveDuplicates, LowNodeUtilization]}
"""
SETTINGS = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 200ms, maxWait: 2s}
journal: {checkpoints: {every: 1s}}
sinks: {stream: {}}
recording: {enabled: true}
guards: {standingTimes: {otherTaints: 0s, nodeLabels: 0s, openNodes: 0s}}
"""
TO_STDOUT = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
sinks: {stdout: {}}
"""
IN_THE_POD = """#!/usr/bin/env bash
# kubectl, but for what needs a container: that is done here, where the controller runs.
set -eu
flags=() verb='' namespace='' target='' follow=''
for word in "$@"; do
  case $word in
    --) break ;;
    exec|logs|port-forward) verb=$word ;;
    reactive-desched) namespace=$word ;;
    */*) target=$word ;;
    --follow) follow=1 ;;
  esac
done
[ -n "$verb" ] && [ -n "$target" ] || exec "$KUBECTL" "$@"
"$KUBECTL" get -n "$namespace" "$target" -o name > /dev/null
case $verb in
  exec) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
  logs) exec tail ${follow:+-f} -n +1 "$CONTROLLER_LOG" ;;
  port-forward) exit 0 ;;  # the port is here already
esac
"""
RUN_BESIDE = {"reactive-desched run --policy": "reactive-desched run --listen 127.0.0.1:0 --policy"}
"""The port of the page's own controller is taken by the one that all pages ask."""
FOLLOWING = {
    "kubectl logs -n reactive-desched deploy/reactive-desched --follow": b" findings=",
    "kubectl logs -n reactive-desched deployment/reactive-desched --follow": b" findings=",
    "reactive-desched run --listen 127.0.0.1:0 --policy policy.yaml --dry-run": b" findings=",
    "reactive-desched run --listen 127.0.0.1:0 --policy policy.yaml --settings": b"\r\n",
    "reactive-desched run --listen 127.0.0.1:0 --policy policy.yaml": b" findings=",
    "curl -N http://127.0.0.1:10258/events": b"heartbeat",
    "reactive-desched events tail --follow": b"eviction",
}
"""Commands that go on until Ctrl-C, and what they print before it is pressed."""
ENDINGS = {
    "reactive-desched audit query --owner Deployment/web": (1,),
    "reactive-desched audit query --namespace shop": (1,),
    "kubectl -n reactive-desched exec deploy/reactive-desched -- reactive-desched status | grep": (
        1,
    ),
    (
        "kubectl -n reactive-desched exec deploy/reactive-desched"
        " -- reactive-desched eviction-loops clear"
    ): (2,),
    "kubectl get pods -A --as jane": (1,),
    "reactive-desched drain node-17 --reason": (0, 3),
    "reactive-desched audit query --outcome dry_run --journal ./journal": (0, 1, 2),
    "reactive-desched reject 154dafa7": (2,),
    "reactive-desched approve --group c765886f": (2,),
    "reactive-desched status | grep ^calendar": (1,),
    "kwokctl snapshot export": (127,),
    "reactive-desched audit show xxqyp5fe44oo2vqpmz6wczbc5h": (1,),
}
"""What ends otherwise than with 0: there is no such record or case, no such memory, no such right,
or none is missing; the time was over before a node was empty, nothing of that name is proposed, no
schedule has a calendar, or there is no kwokctl here, and its file is made by this test."""


@dataclass(frozen=True)
class Reading:
    """How a page is read: what is typed before its first command, and what its names are here."""

    before: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


ITS_OWN_JOURNAL = "unset STATE_DIRECTORY"
CONSOLIDATED = (
    "for _ in 1 2 3 4 5; do "
    "kubectl taint nodes node-09 reactive-desched/consolidating=:PreferNoSchedule && "
    "kubectl taint nodes node-09 reactive-desched/consolidating- && break; done"
)
"""The running controller takes the taint off a node with pods, too, and now and then sooner."""
AUDIT_LOG = "touch audit.log"
"""The simulated API server has none."""
READINGS = {
    "docs/howto/access.md": Reading(("kubectl apply -k deploy/examples/tokens",)),
    "docs/howto/audit.md": Reading(
        (AUDIT_LOG,),
        {
            "payments/ledger-2-0": "$MOVED",
            "--node n1": "--node $LEFT",
            "--node node-01": "--node $ENDED_ON",
            "reactive-desched audit verify --journal copy/": (
                'mkdir copy && cp "$JOURNAL"/journal-* "$JOURNAL"/*.pub copy'
                " && reactive-desched audit verify --journal copy/"
            ),
        },
    ),
    "docs/howto/rights.md": Reading(
        names={
            "sim --write-kubeconfig sim.kubeconfig": (
                "sim --nodes 3 --pods 10 --write-kubeconfig sim.kubeconfig &"
            )
        }
    ),
    "docs/howto/dry-run.md": Reading(names=RUN_BESIDE),
    "docs/howto/observe.md": Reading(
        (ITS_OWN_JOURNAL, "cp to-stdout.yaml settings.yaml"),
        RUN_BESIDE
        | {
            "annotate deployment web": "annotate deployment $DEPLOYMENT",
            "sim --scenario messy": "sim --nodes 3 --pods 10 --write-kubeconfig third &",
            "export KUBECONFIG=$PWD/sim.kubeconfig": "true",
        },
    ),
    "docs/howto/look-back.md": Reading(
        ("cp policy.yaml new-policy.yaml",),
        {
            "shop/web-7d4b9c6f5-x2x8p": "$STAYS",
            "--at 2h": "--at $THEN",
            "2026-05-01T03:12:00Z": "$THEN",
        },
    ),
    "docs/howto/recording.md": Reading(
        names={
            "2026-05-01T02:00:00Z": "$BEGAN",
            "2026-05-01T03:12:00Z": "$THEN",
            "2026-05-01T04:00:00Z": "$(date -u +%FT%TZ)",
        },
    ),
    "docs/howto/try-a-policy.md": Reading(
        ("cp policy.yaml new.yaml",),
        {
            "--recording ./journal": '--recording "$JOURNAL"',
            "next/bin/pip install 'reactive-desched==NEXT'": (
                'ln -s "$(command -v reactive-desched)" next/bin'
            ),
        },
    ),
    "docs/howto/kubeconfig.md": Reading(names={"kind-kind": "kubeconfig"}),
    "docs/howto/event-stream.md": Reading(names={"/var/lib/reactive-desched": '"$JOURNAL"'}),
    "docs/howto/events.md": Reading(
        names={"-n shop web": "$DEPLOYMENT", "-n shop --": "-n kube-system --"}
    ),
    "docs/howto/consolidate.md": Reading(
        names={"kubectl taint nodes node-17 reactive-desched/consolidating-": CONSOLIDATED}
    ),
    "docs/howto/drain.md": Reading(names={"node-17": "node-09", "--timeout 30m": "--timeout 5s"}),
    "docs/howto/evaluate.md": Reading(names={"worker-7": "node-07"}),
    "docs/howto/high-availability.md": Reading(
        (
            "kubectl create -f - <<< '"
            + json.dumps(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "reactive-desched", "namespace": "reactive-desched"},
                }
            )
            + "'",
        )
    ),
    "docs/howto/kafka.md": Reading(("touch ca.crt password",)),
    "docs/howto/migrate.md": Reading(("kubectl run web-0 --image=example/web:1",)),
    "docs/howto/keep-pods.md": Reading(
        (
            "kubectl create deployment shop --image=example/shop:1",
            "kubectl run importer --image=example/importer:1",
        ),
        {"worker-7": "node-07", "node-7": "node-08"},
    ),
    "docs/howto/node-conditions.md": Reading(
        names={"kubectl cordon node-17": "kubectl cordon node-09 && kubectl uncordon node-09"}
    ),
    "docs/howto/one-shot.md": Reading(
        (
            ITS_OWN_JOURNAL,
            "kubectl apply -k deploy/overlays/preview",
            "kubectl apply -k deploy/cronjob",
        )
    ),
    "docs/howto/monitoring.md": Reading(),
    "docs/howto/simulator.md": Reading(
        (ITS_OWN_JOURNAL,),
        RUN_BESIDE
        | {
            "sim --scenario messy": "sim --nodes 3 --pods 10 --write-kubeconfig second &",
            "kind-worker": "node-07",
            "http://127.0.0.1:PORT": '"$(kubectl config view -o jsonpath={..server})"',
        },
    ),
    "docs/howto/stop-it.md": Reading(names={"worker-7": "node-07"}),
    "docs/howto/webhook.md": Reading(
        (ITS_OWN_JOURNAL, "cp to-stdout.yaml settings.yaml"), RUN_BESIDE
    ),
    "docs/howto/why.md": Reading(
        names={
            "media/streams-2-t75vztxvkj-fxmxs": "$STAYS",
            "shop/web-7d4b9c6f5-x2x8p": "$STAYS",
        }
    ),
    "docs/reference/plan.md": Reading(names={"shop/web-7d4b9c6f5-x2x8p": "$STAYS"}),
    "docs/howto/write-a-sink.md": Reading(
        names={  # not into the Python of the tests, which later ones use
            "pip install": "export PYTHONPATH=$PWD/site && pip install --no-deps --target site",
        }
    ),
    "docs/reference/policy-formats.md": Reading(
        ("mkdir policies", "cp policy.yaml policies/", "cp examples/v1alpha1.yaml old.yaml")
    ),
}
PAGES = {
    page: [each for each in commands() if each.page == page and typed(each)]
    for page in dict.fromkeys(each.page for each in commands())
    if page not in ("README.md", "docs/tutorial.md")  # typed by tests of their own
}


@dataclass(frozen=True)
class World:
    """What every page finds: a simulated cluster, a controller on it, and the files of a reader."""

    files: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def world(
    real_tools: RealTools, default_port: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Start the cluster and the controller, and wait until it has evicted and signed."""
    del default_port
    folder = tmp_path_factory.mktemp("pages")
    files, kubeconfig, journal = folder / "files", folder / "kubeconfig", folder / "journal"
    files.mkdir()
    (files / "policy.yaml").write_text(POLICY)
    (files / "settings.yaml").write_text(SETTINGS)
    (files / "to-stdout.yaml").write_text(TO_STDOUT)
    (files / "kwok.yaml").write_text(KWOK)
    (files / "trace.sktrace").write_bytes(trace((1_700_000_000, [pod("a")], [])))
    (files / "koordinator.yaml").write_text(migration_controller("defaultJobMode: EvictDirectly"))
    ours = (sys.executable, "-m", "reactive_desched")
    size = ("--scenario", "messy", "--nodes", "12", "--pods", "150")
    sim = ChildProcess(
        "sim", (*ours, "sim", *size, "--write-kubeconfig", str(kubeconfig)), folder / "sim.log"
    )
    configs = ("--policy", f"{files}/policy.yaml", "--settings", f"{files}/settings.yaml")
    places = ("--kubeconfig", str(kubeconfig), "--journal", str(journal))
    controller = ChildProcess("run", (*ours, "run", *configs, *places), folder / "run.log")
    sim.start()
    try:
        wait_until(lambda: "ready: scenario" in sim.tail(1), within_s=60, what="the cluster")
        kubectl = Kubectl(real_tools.paths["kubectl"], kubeconfig, folder / "cache")
        kubectl.run("apply", "-k", str(ROOT / "deploy" / "controller"))
        kubectl.run("create", "namespace", "bank")
        objects = kubectl.run("get", KINDS, "-A", "-o", "json")
        (files / "cluster.json").write_text(objects)
        measured = kubectl.run("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
        (files / "metrics.json").write_text(measured)
        controller.start()
        wait_until(lambda: recorded("audit.checkpoint"), within_s=60, what="a checkpoint")
        wait_until(lambda: recorded("eviction.succeeded"), within_s=60, what="an eviction")
        ended_on = end_as_the_kubelet(kubectl, "bank", "ledger")
        began, ended = recorded_times(journal)
        staying = kubectl.get("pods", "-n", "kube-system")[0]["metadata"]["name"]
        workload = kubectl.get("deployments", "-A")[0]["metadata"]
        moved = recorded("eviction.succeeded")[0]["data"]["who"]
        tools = folder / "tools"
        tools.mkdir()
        (tools / "kubectl").write_text(IN_THE_POD)
        (tools / "kubectl").chmod(0o755)
        monitor = prometheus.find(os.environ) or do_without(["Prometheus"])
        (tools / "promtool").symlink_to(monitor.with_name("promtool"))
        yield World(
            files,
            {
                "PATH": f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
                "PS1": PS1,
                "TERM": "dumb",
                "KUBECTL": str(real_tools.paths["kubectl"]),
                "KUBECONFIG": str(kubeconfig),
                "JOURNAL": str(journal),
                "STATE_DIRECTORY": str(folder),  # as in the controller's pod
                "CONTROLLER_LOG": str(folder / "run.log"),
                "STAYS": f"kube-system/{staying}",
                "LEFT": moved["node"],
                "ENDED_ON": ended_on,
                "BEGAN": began,
                "THEN": ended,
                "MOVED": f"{moved['namespace']}/{moved['name']}",
                "DEPLOYMENT": f"-n {workload['namespace']} {workload['name']}",
            },
        )
        controller.stop()
    finally:
        controller.kill()
        sim.kill()


def recorded_times(journal: Path) -> tuple[str, str]:
    """Wait for two full seconds in the recording; return the first and the last one.

    The cluster is in the recording at the last one: the first picture is complete by then.
    """
    recording = journal / RECORDING_FOLDER

    def full_seconds() -> tuple[int, int] | None:
        try:
            held = summarize_recording(recording)
            began, ended = math.ceil(held.first_s), math.floor(held.last_s)
            state_at(recording, ended, lambda _: None)
        except NotRecorded:
            return None
        return (began, ended) if began < ended else None

    began, ended = wait_until(full_seconds, within_s=60, what="a recording")
    return format_second(began), format_second(ended)


def end_as_the_kubelet(kubectl: Kubectl, namespace: str, name: str) -> str:
    """End a pod as a node under pressure does, until that is recorded; return the node."""
    kubectl.run("run", name, "-n", namespace, "--image=example/ledger:1")
    ready = ("--for=condition=Ready", f"pod/{name}", "-n", namespace, "--timeout=60s")
    kubectl.run("wait", *ready)
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    status = {"status": {"phase": "Failed", "reason": "Evicted", "conditions": [mark]}}
    patch = ("--subresource=status", "--type=strategic", "-p", json.dumps(status))
    kubectl.run("patch", "pod", name, "-n", namespace, *patch)
    wait_until(
        lambda: [
            each for each in recorded(DISRUPTION_OBSERVED) if each["data"]["who"]["name"] == name
        ],
        within_s=60,
        what="the end of the pod is recorded",
    )
    [ended] = kubectl.get("pods", "-n", namespace, "--field-selector", f"metadata.name={name}")
    return str(ended["spec"]["nodeName"])


def recorded(kind: str) -> list[dict[str, Any]]:
    """Return the events of a type that the controller has recorded; none before it listens."""
    url = f"{CONTROLLER}/events?type={kind}&from=oldest&follow=false"
    request = urllib.request.Request(url, headers={"Accept": "application/x-ndjson"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [json.loads(line) for line in answer if line.strip()]
    except OSError:
        return []


@pytest.fixture
def terminal(world: World, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in a folder that looks like a clone, with a reader's own files."""
    for name in ("deploy", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(world.files, tmp_path, dirs_exist_ok=True)
    opened = Terminal(tmp_path, world.environment | {"HOME": str(tmp_path)})
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("page", [page for page, each in PAGES.items() if each])
def test_the_commands_of_a_page_work_as_printed(page: str, terminal: Terminal) -> None:
    reading = READINGS.get(page, Reading())
    asks_controller = any("/reactive-desched" in command.text for command in PAGES[page])
    installs = ("kubectl apply -k deploy/controller",) if asks_controller else ()
    for line in (*installs, *reading.before):  # whatever a page before has deleted
        assert terminal.type(line)[0] == 0, line
    used = set()
    for command in PAGES[page]:
        text = command.text
        for name, here in reading.names.items():
            if name in text:
                used.add(name)
                text = text.replace(name, here)
        type_one(terminal, command, text)

    assert reading.names.keys() - used == set(), "names that the page has no more"


def type_one(terminal: Terminal, command: DocCommand, text: str) -> None:
    """Type a command, and check its status; where the page shows yes or no, what it printed."""
    for start, expected in FOLLOWING.items():
        if text.startswith(start) and "--once" not in text:
            status, printed = terminal.follow(text, expected)
            assert status in (0, 130), f"{text}: {status}\n{printed}"
            return
    status, printed = terminal.type(text)
    if text.endswith("&"):
        terminal.wait_for(b"ready: scenario" if " sim " in text else b"")
    shown = command.printed.strip()
    if shown in ("yes", "no"):
        assert printed.split()[-1] == shown, text
    else:
        allowed = next(
            (each for start, each in ENDINGS.items() if command.text.startswith(start)), (0,)
        )
        assert status in allowed, f"{text}: {status}\n{printed}"
