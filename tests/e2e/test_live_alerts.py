"""A real Prometheus evaluates the shipped alerts over running controllers of several clusters."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import do_without, where_they_are
from tests.e2e.test_alerts import MONITORING
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.prometheus import MonitoringProcess
from tests.support.simulator_process import TAINT_POLICY, simulator, taint_settings

pytestmark = pytest.mark.real

JOB, NAMESPACE = "reactive-desched", "descheduling"
FIRST = ("ReactiveDeschedNoLeader", "ReactiveDeschedJournalFault", "ReactiveDeschedAbsent")
Fired = set[tuple[str, str]]  # alerts, and the clusters that they fire for


def quick_rules(folder: Path) -> Path:
    """Write the shipped alerts, which fire after eight seconds, or at once as they say.

    A machine may stand still for less, after which controllers sync.
    """
    shipped = (MONITORING / "alerts.yaml").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^    for: ", shipped)
    path = folder / "alerts.yaml"
    path.write_text(re.sub(r"(?m)^    for: \w+$", "    for: 8s", shipped))
    return path


class Monitoring:
    """Prometheus with the alerts, and the Alertmanager that it sends them to."""

    def __init__(self, prometheus: str, alertmanager: str) -> None:
        self._prometheus, self._url = prometheus, alertmanager

    def leaders(self) -> set[str]:
        """Return the clusters whose leader Prometheus has seen."""
        query = f"{self._prometheus}/api/v1/query?query=reactive_desched_leader"
        with urllib.request.urlopen(query) as answer:
            found = json.load(answer)["data"]["result"]
        return {each["metric"]["cluster"] for each in found if each["value"][1] == "1"}

    def alerts(self) -> list[Mapping[str, Any]]:
        """Return the alerts that Alertmanager has."""
        with urllib.request.urlopen(f"{self._url}/api/v2/alerts?active=true") as answer:
            found: list[Mapping[str, Any]] = json.load(answer)
        return found

    def fired(self) -> Fired:
        """Return which alerts fire for which clusters; each is of the one namespace and job.

        Before its first scrape Prometheus knows no cluster, and says so.
        """
        found = [labels for each in self.alerts() if "cluster" in (labels := each["labels"])]
        assert {(each["namespace"], each["job"]) for each in found} <= {(NAMESPACE, JOB)}
        return {(each["alertname"], each["cluster"]) for each in found}

    def summary(self, alert: str, cluster: str) -> str:
        """Return what an alert says."""
        (found,) = {
            each["annotations"]["summary"]
            for each in self.alerts()
            if (each["labels"]["alertname"], each["labels"].get("cluster")) == (alert, cluster)
        }
        return str(found)


@contextmanager
def monitored(folder: Path, targets: Mapping[str, ControllerProcess]) -> Iterator[Monitoring]:
    """Run a Prometheus that scrapes each controller under the name of its cluster."""
    found = json.loads(where_they_are())
    programs = [
        Path(found[name] or do_without([name.capitalize()]))
        for name in ("prometheus", "alertmanager")
    ]
    route = {"receiver": "none", "group_wait": "0s"}
    quiet = {"route": route, "receivers": [{"name": "none"}]}
    scraped = [
        {
            "targets": [controller.url.removeprefix("http://")],
            "labels": {"cluster": cluster, "namespace": NAMESPACE},
        }
        for cluster, controller in targets.items()
    ]
    with MonitoringProcess.alertmanager(programs[1], folder, quiet) as alertmanager:
        sent_to = [{"static_configs": [{"targets": [alertmanager.url.removeprefix("http://")]}]}]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [{"job_name": JOB, "static_configs": scraped}],
            "rule_files": [str(quick_rules(folder))],
            "alerting": {"alertmanagers": sent_to},
        }
        with MonitoringProcess.prometheus(programs[0], folder, config) as prometheus:
            yield Monitoring(prometheus.url, alertmanager.url)


def test_each_alert_names_the_one_cluster_that_it_is_about(tmp_path: Path) -> None:
    settings = taint_settings()
    folders = {name: tmp_path / name for name in ("mute", "full", "gone", "well")}
    for folder in folders.values():
        folder.mkdir()
    with ExitStack() as stack, ExitStack() as api_server:
        mute = api_server.enter_context(simulator(folders["mute"], 12))
        (tmp_path / "shared").mkdir()
        shared = stack.enter_context(simulator(tmp_path / "shared", 40))
        clusters = {
            name: stack.enter_context(
                ControllerProcess(
                    folder,
                    (mute if name == "mute" else shared).kubeconfig,
                    TAINT_POLICY,
                    settings,
                    ("--leader-elect", f"--leader-elect-resource-name={name}"),
                )
            )
            for name, folder in folders.items()
        }
        seen = stack.enter_context(monitored(tmp_path, clusters))
        wait_until(
            lambda: seen.leaders() == clusters.keys(), within_s=60, what="each has its leader"
        )
        api_server.close()
        clusters["gone"].kill()
        wait_until(lambda: not clusters["mute"].alive, within_s=60, what="its leader gives up")
        clusters["mute"].launch()  # as the kubelet does
        with clusters["full"].full_disk():
            shared.set_taints("node-1", "gpu")
            expected = {
                ("ReactiveDeschedNoLeader", "mute"),
                ("ReactiveDeschedJournalFault", "full"),
                ("ReactiveDeschedAbsent", "gone"),
            }
            wait_until(lambda: seen.fired() >= expected, within_s=60, what="the alerts fire")
            of_ours = {each for each in seen.fired() if each[0] in FIRST}
            assert of_ours == expected
            assert not [each for each in seen.fired() if each[1] == "well"]
            assert seen.summary("ReactiveDeschedNoLeader", "mute").startswith(
                f"mute {NAMESPACE}/{JOB}: "
            )
        wait_until(
            lambda: ("ReactiveDeschedJournalFault", "full") not in seen.fired(),
            within_s=60,
            what="the alert ends with the fault",
        )


def with_plugin(folder: Path, server: str) -> Path:
    """Write a kubeconfig with a credential plugin, which gives what is in the file `token`."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/cat",
        "args": [str(folder / "token")],
        "interactiveMode": "Never",
    }
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


def give_token(folder: Path, lasts_s: float) -> None:
    """Have the plugin answer with a token that ends so soon."""
    ends = datetime.now(UTC) + timedelta(seconds=lasts_s)
    status = {"token": "t", "expirationTimestamp": ends.isoformat()}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "status": status}
    (folder / "token").write_text(json.dumps(answer))


def test_a_brake_a_rejected_policy_and_credentials_fire_for_their_own_cluster_and_resolve(
    tmp_path: Path,
) -> None:
    folders = {name: tmp_path / name for name in ("stormy", "edited", "lapsed")}
    for folder in folders.values():
        folder.mkdir()
    (tmp_path / "shared").mkdir()
    with ExitStack() as stack:
        shared = stack.enter_context(simulator(tmp_path / "shared", 40))
        give_token(folders["lapsed"], lasts_s=20)  # it is renewed after half of that
        lapsed = with_plugin(folders["lapsed"], shared.url)
        braked = taint_settings("brakes: {zones: null, pending: null, storm: {pods: 2}}")
        clusters = {
            name: stack.enter_context(
                ControllerProcess(
                    folder,
                    lapsed if name == "lapsed" else shared.kubeconfig,
                    TAINT_POLICY,
                    braked if name == "stormy" else taint_settings(),
                    ("--leader-elect", f"--leader-elect-resource-name={name}"),
                )
            )
            for name, folder in folders.items()
        }
        seen = stack.enter_context(monitored(tmp_path, clusters))
        wait_until(
            lambda: seen.leaders() == clusters.keys(), within_s=60, what="each has its leader"
        )
        (folders["lapsed"] / "token").unlink()
        policy = folders["edited"] / "policy.yaml"
        policy.write_text(TAINT_POLICY.replace("NodeTaints", "NodeTants"))
        tainted = ("node-1", "node-2", "node-3")
        for node in tainted:
            shared.set_taints(node, "gpu")
        expected = {
            ("ReactiveDeschedBrakeEngaged", "stormy"),
            ("ReactiveDeschedPolicyRejected", "edited"),
            ("ReactiveDeschedCredentialsFail", "lapsed"),
        }
        wait_until(lambda: seen.fired() >= expected, within_s=90, what="the alerts fire")
        assert {each for each in seen.fired() if each[0] in dict(expected)} == expected

        give_token(folders["lapsed"], lasts_s=3600)
        policy.write_text(TAINT_POLICY)
        for node in tainted:
            shared.set_taints(node)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "reactive_desched", "resume"),
                *("--server", clusters["stormy"].url, "--reason", "the taints are gone"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: not seen.fired() & expected, within_s=90, what="all are resolved")
