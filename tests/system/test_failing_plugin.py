"""A plugin of another package that raises ends no command, and the other plugins go on."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ForkServer

NODE = "node-1"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  plugins:
    deschedule: {enabled: [Failing, RemovePodsViolatingNodeTaints]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 50ms}
"""
PLUGIN = """\
from reactive_desched.api import PluginArgs, PodPlugin
from reactive_desched.model.changes import NodeTaintsChanged, Resynced


class Failing(PodPlugin[PluginArgs]):
    name = "Failing"
    reacts_to = (Resynced, NodeTaintsChanged)

    def judge(self, subject, view):
        raise RuntimeError(f"no price list for {subject}")
        yield

    def describe(self, pod, view):
        raise RuntimeError("no words")
"""


@pytest.fixture
def policy(tmp_path: Path, settings: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the plugin for the programs of this test, and name it in their policy."""
    site = tmp_path / "site"
    info = site / "failing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[reactive_desched.plugins]\nFailing = failing:Failing\n"
    )
    (site / "failing.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(site))
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + settings, encoding="utf-8")
    return path


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return str(reply.read().decode())


@pytest.mark.executed
def test_a_plugin_that_raises_is_named_everywhere_and_the_others_evict(
    cluster: Any, controller: Callable[..., Any], fork_server: ForkServer
) -> None:
    program = controller()
    program.wait_for("a plugin is switched off")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    cluster.taint(NODE, "gpu")
    program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")

    assert program.output.count("Traceback (most recent call last)") == 1
    assert "no price list for" in program.output
    ready = answer(f"{program.url}/readyz?verbose")
    assert re.search(r"\[!\]plugins: Failing of .* failed 10 times", ready)
    assert "readyz check passed" in ready
    assert 'reactive_desched_plugin_off{plugin="Failing"} 1' in answer(f"{program.url}/metrics")
    [failing] = json.loads(answer(f"{program.url}/debug/status"))["failingPlugins"]
    assert (failing["plugin"], failing["off"]) == ("Failing", True)
    shown = fork_server.run("status", "--server", program.url)
    assert re.search(r"plugins +Failing of .* off since", shown.stdout)
    assert program.stop() == 0


@pytest.mark.parametrize("mode", ["run", "once", "upstream"])
def test_a_plan_is_printed_and_warns_of_the_plugin(
    cluster: Any, policy: Path, mode: str, fork_server: ForkServer
) -> None:
    cluster.taint(NODE, "gpu")
    flags = ("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig))
    done = fork_server.run("plan", "--as", mode, *flags, "--all")

    assert done.returncode == 1
    assert re.search("^warning: plugin Failing of .* RuntimeError", done.stderr, re.MULTILINE)
    assert "RemovePodsViolatingNodeTaints" in done.stdout


@pytest.mark.parametrize("mode", ["run", "once"])
def test_a_plan_names_a_plugin_that_does_not_return_and_says_so_by_its_status(
    cluster: Any, policy: Path, tmp_path: Path, mode: str, fork_server: ForkServer
) -> None:
    once = "__import__('time').sleep(NAPS.pop() if NAPS else 0)\n        return iter(())"
    hanging = "NAPS = [1000]\n" + re.sub("raise RuntimeError.*subject.*", once, PLUGIN)
    (tmp_path / "site" / "failing.py").write_text(hanging)
    cluster.taint(NODE, "gpu")
    flags = ("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig))
    done = fork_server.run("plan", "--as", mode, *flags)

    assert done.returncode == 1
    named = r"^warning: .*Failing.*node-\d.*PluginHung.*Failing\.judge"
    assert re.search(named, done.stderr, re.MULTILINE)
    assert "RemovePodsViolatingNodeTaints" in done.stdout


def test_a_sweep_evicts_by_the_other_plugins_and_says_by_its_status_that_one_failed(
    cluster: Any, policy: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    before = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    cluster.taint(NODE, "gpu")
    flags = ("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig))
    done = fork_server.run("run", "--once", *flags, "--journal", str(tmp_path / "once"))

    assert "a plugin failed" in done.stderr
    assert done.returncode == 1
    assert before.isdisjoint(cluster.pods_on(NODE))


INDEXED = """\
import time

from reactive_desched.api import PluginArgs, PodPlugin
from reactive_desched.api.index import Index
from reactive_desched.model.changes import NodeTaintsChanged, Resynced


class Prices(Index):
    def on_node(self, old, new):
        if new is not None and new.node.taints:
            raise KeyError("price")
        return ()

    def answers(self):
        return ()


class Failing(PodPlugin[PluginArgs]):
    name = "Failing"
    reacts_to = (Resynced, NodeTaintsChanged)
    indexes = (Prices,)

    def judge(self, subject, view):
        time.sleep(0.2)
        yield from ()


class Unmade(Failing):
    name = "Unmade"

    def __init__(self, args):
        raise KeyError("PRICE_LIST")
"""


def test_an_index_that_raises_and_a_plugin_that_cannot_be_made_end_no_controller(
    cluster: Any, policy: Path, controller: Callable[..., Any], tmp_path: Path
) -> None:
    site = tmp_path / "site"
    (site / "failing.py").write_text(INDEXED)
    (site / "failing-1.0.dist-info" / "entry_points.txt").write_text(
        "[reactive_desched.plugins]\nFailing = failing:Failing\nUnmade = failing:Unmade\n"
    )
    program = controller()
    program.wait_for("a plugin is slow.*Failing.*held the event loop")
    before = policy.read_text()
    policy.write_text(before.replace("enabled: [", "enabled: [Unmade, "))
    program.wait_for("plugin Unmade .* of failing 1.0 .*PRICE_LIST")
    policy.write_text(before)
    program.wait_for("the policy is valid again")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    cluster.taint(NODE, "gpu")
    program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")

    ready = answer(f"{program.url}/readyz?verbose")
    assert re.search(rf"\[!\]plugins: Failing of .* index Prices .*{NODE}", ready)
    metrics = answer(f"{program.url}/metrics")
    assert 'reactive_desched_plugin_off{plugin="Failing"} 1' in metrics
    assert re.search(r'plugin_slow_calls_total\{plugin="Failing"\} [1-9]', metrics)
    assert program.output.count("Traceback (most recent call last)") == 1
    assert program.stop() == 0


def test_a_start_with_a_plugin_that_cannot_be_made_names_its_package(
    cluster: Any, policy: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    site = tmp_path / "site"
    unmade = "    def __init__(self, args):\n        raise KeyError\n\n    reacts_to"
    (site / "failing.py").write_text(PLUGIN.replace("    reacts_to", unmade))
    flags = ("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig))
    done = fork_server.run("run", *flags, "--journal", str(tmp_path / "journal"))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.search("plugin Failing .* of failing 1.0 .* KeyError", done.stderr)


@pytest.mark.executed
def test_a_plugin_that_does_not_return_is_left_and_the_others_evict(
    cluster: Any, policy: Path, controller: Callable[..., Any], tmp_path: Path
) -> None:
    waits_once = PLUGIN.replace("from reactive", "import time\n\nWAITS = [1000]\nfrom reactive", 1)
    waits_once = re.sub(
        "raise RuntimeError.*subject.*", "WAITS and time.sleep(WAITS.pop())", waits_once
    )
    (tmp_path / "site" / "failing.py").write_text(waits_once)
    cluster.taint(NODE, "gpu")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    program = controller()
    program.wait_for("a plugin failed.*PluginHung")
    program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")

    assert program.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [("plan",), ("run", "--once")], ids=" ".join)
def test_a_command_whose_plugin_does_not_return_is_ended_by_signals(
    cluster: Any, policy: Path, tmp_path: Path, command: tuple[str, ...], number: signal.Signals
) -> None:
    hangs = "__import__('pathlib').Path(__file__).with_name('hangs').touch(); "
    hanging = re.sub(
        "raise RuntimeError.*subject.*", hangs + "__import__('time').sleep(1000)", PLUGIN
    )
    (tmp_path / "site" / "failing.py").write_text(hanging)
    flags = ["--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)]
    if command != ("plan",):
        flags += ["--journal", str(tmp_path / "once")]
    argv = [sys.executable, "-m", "reactive_desched", *command, *flags]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "site" / "hangs").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            while process.poll() is None and time.monotonic() < deadline:
                process.send_signal(number)
                time.sleep(0.2)
            assert process.poll() in (130, -number)
        finally:
            process.kill()
