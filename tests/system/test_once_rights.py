"""One sweep where the server denies what only records would like to know."""

import json
import random
from pathlib import Path

import pytest

from reactive_desched.app import run_once
from reactive_desched.app.options import Options, load_dependencies
from reactive_desched.controller.asked_kinds import NOT_ASKED
from reactive_desched.errors import SnapshotUnavailable
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.faults import FaultPlan, refused
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Store
from reactive_desched.state.kinds.job import JOB

pytestmark = pytest.mark.anyio

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "%s"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


async def swept(tmp_path: Path, *denied: str) -> int:
    """Sweep an empty cluster that denies these resources; return the exit status."""
    store, faults = Store(VirtualClock(1_800_000_000.0), random.Random(7)), FaultPlan()
    seed(store)
    for resource in denied:
        error = StatusError(403, "Forbidden", f"{resource} is forbidden")
        faults.add(refused(error), target=f"/{resource}", times=100)
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    async with serve(store, faults=faults) as url:
        (tmp_path / "kubeconfig").write_text(KUBECONFIG % url, encoding="utf-8")
        options = Options(
            str(tmp_path / "policy.yaml"),
            kubeconfig=str(tmp_path / "kubeconfig"),
            journal_dir=str(tmp_path / "journal"),
            listen="127.0.0.1:0",
            log_format="json",
        )
        return await run_once._until_done(load_dependencies(options))


async def test_a_sweep_goes_without_replica_sets_and_jobs_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await swept(tmp_path, "replicasets", "jobs") == run_once.COMPLETED

    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    without = {line["resource"]: line for line in said if "effect" in line}
    assert without.keys() == {"replicasets", "jobs"}
    assert without["jobs"]["effect"] == JOB.if_forbidden
    assert "403 jobs is forbidden" in without["jobs"]["message"]


async def test_a_sweep_does_not_go_without_what_decisions_need(tmp_path: Path) -> None:
    missing = r"grant \{apiGroups: \[\"\"\], resources: \[nodes\], verbs: \[list\]\}"
    with pytest.RaisesGroup(
        pytest.RaisesExc(SnapshotUnavailable, match=missing), flatten_subgroups=True
    ):
        await swept(tmp_path, "nodes")


async def test_a_sweep_goes_without_what_its_policy_does_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unread = "namespaces", "priorityclasses", "persistentvolumeclaims"
    assert await swept(tmp_path, *unread) == run_once.COMPLETED

    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    without = {line["resource"]: line["effect"] for line in said if "effect" in line}
    assert without == dict.fromkeys(unread, NOT_ASKED)
