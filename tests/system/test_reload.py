import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.limits import UNLIMITED

NODE = "node-1"
WATCHING = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: {profile}
  pluginConfig:
  - name: RemovePodsViolatingNodeTaints
    args: {{excludedTaints: [{excluded}]}}
  plugins:
    deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 50ms}}
"""


def text(profile: str, excluded: str) -> str:
    return WATCHING.format(profile=profile, excluded=excluded) + UNLIMITED


class Mount:
    """A folder as the kubelet mounts a ConfigMap: every change swaps one symlink."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        folder.mkdir()
        self.policy = folder / "policy.yaml"
        self.policy.symlink_to("..data/policy.yaml")

    def publish(self, policy: str) -> None:
        self._count += 1
        version = self._folder / f"..{self._count}"
        version.mkdir()
        (version / "policy.yaml").write_text(policy, encoding="utf-8")
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")


class Page:
    """What the controller serves."""

    def __init__(self, program: Any) -> None:  # a Program of conftest.py
        self._url = program.url

    def __call__(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=60) as reply:
            return str(reply.read().decode())


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    made = Mount(tmp_path / "config")
    made.publish(text("first", "gpu"))
    return made


@pytest.fixture
def follow(
    start: Callable[..., Any], cluster: Any, mount: Mount, tmp_path: Path, monkeypatch: Any
) -> Callable[..., Any]:
    """Start `run` as a pod that knows its name, with the mounted policy."""
    ourselves = {"POD_NAME": "controller-1", "POD_NAMESPACE": "default", "POD_UID": "uid-1"}
    for name, value in ourselves.items():
        monkeypatch.setenv(name, value)

    def start_one(*more: str) -> Any:  # a Program of conftest.py
        program = start(
            "run",
            *("--policy", str(mount.policy), "--kubeconfig", str(cluster.kubeconfig)),
            *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
            *("--log-format", "json", *more),
        )
        program.wait_for("the cluster is synced")
        return program

    return start_one


def movable(cluster: Any) -> set[str]:  # the Cluster of conftest.py
    return {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}


def events(cluster: Any) -> list[dict[str, Any]]:  # as above
    found: list[dict[str, Any]] = cluster.call("GET", "/apis/events.k8s.io/v1/events")["items"]
    ours = [e for e in found if e.get("reportingController") == "reactive-desched"]
    return sorted(ours, key=lambda event: str(event["eventTime"]))


def test_a_policy_that_changes_is_acted_on_and_a_bad_one_is_not(
    cluster: Any, follow: Callable[..., Any], mount: Mount
) -> None:
    program = follow()
    page = Page(program)
    cluster.taint(NODE, "gpu")
    before = movable(cluster)
    assert before
    first = re.search(r"policy: revision (\w+) of", page("/readyz?verbose"))
    assert first is not None

    mount.publish("nodeSelectr: {}\n" + text("second", "other"))
    program.wait_for('"the new policy was rejected"')
    verbose = page("/readyz?verbose")
    assert f"[!]policy: kept revision {first[1]}: file rejected: {mount.policy}:1:1" in verbose
    assert verbose.endswith("readyz check passed\n")
    assert page("/readyz") == "ok"
    assert 'policy_reloads_total{result="rejected"} 1.0' in page("/metrics")
    assert f'digest="{first[1]}"' in page("/metrics")
    assert movable(cluster) == before

    mount.publish(text("second", "other"))
    program.wait_for('"the policy was reloaded"')
    program.wait_until(lambda: not before & movable(cluster))
    assert re.search(rf"\[\+\]policy: revision (?!{first[1]})\w+ of", page("/readyz?verbose"))
    metrics = page("/metrics")
    assert 'policy_reloads_total{result="ok"} 1.0' in metrics
    assert "policy_kept 0.0" in metrics
    assert f'digest="{first[1]}"' not in metrics
    assert program.stop() == 0
    assert "Traceback" not in program.output


def test_evictions_and_policies_are_kubernetes_events(
    cluster: Any, follow: Callable[..., Any], mount: Mount, golden: Golden
) -> None:
    program = follow()
    page = Page(program)
    cluster.taint(NODE, "gpu")
    before = movable(cluster)
    mount.publish("{")
    program.wait_for('"the new policy was rejected"')
    mount.publish(text("second", "other"))
    program.wait_until(
        lambda: f'events_total{{result="sent"}} {2 * len(before) + 2}.0' in page("/metrics")
    )

    rejected, reloaded, *told_of = events(cluster)
    moved = [event for event in told_of if event["regarding"]["kind"] == "Pod"]
    owners = [event for event in told_of if event["regarding"]["kind"] != "Pod"]
    for told, reason, kind in (
        (rejected, "PolicyRejected", "Warning"),
        (reloaded, "PolicyReloaded", "Normal"),
    ):
        assert (told["reason"], told["type"]) == (reason, kind)
        assert told["regarding"]["name"] == "controller-1"
    assert {event["regarding"]["uid"] for event in moved} == before
    for event in moved:
        assert event["reason"] == "RemovePodsViolatingNodeTaints"
        assert event["action"] == "Descheduled"
        assert golden(node=NODE) in event["note"]
    assert len(owners) == len(moved)
    assert {event["reason"] for event in owners} == {"PodEvicted"}
    assert "Deployment" in {event["regarding"]["kind"] for event in owners}
    assert 'events_total{result="failed"} 0.0' in page("/metrics")


def test_a_dry_run_writes_no_events(cluster: Any, follow: Callable[..., Any], mount: Mount) -> None:
    program = follow("--dry-run")
    cluster.taint(NODE, "gpu")
    mount.publish(text("second", "other"))
    program.wait_for('evicted"')
    page = Page(program)

    assert 'events_total{result="sent"} 0.0' in page("/metrics")
    assert events(cluster) == []


def test_what_needs_a_restart_is_named(follow: Callable[..., Any], mount: Mount) -> None:
    program = follow()
    mount.publish(text("first", "gpu") + "client: {burst: 7}\n")

    line = program.wait_for(r'\{.*"a restart is needed".*\}').group()
    assert json.loads(line)["field"] == "client.burst"
