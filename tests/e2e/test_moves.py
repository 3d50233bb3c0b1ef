"""The controller on a real control plane, with the credentials and the role from deploy/ alone."""

from pathlib import Path

import pytest

from reactive_desched.model.outcomes import DENIED, EVICTED
from tests.support import manifests
from tests.support.audit_crosscheck import (
    AuditCrosscheck,
    dry_run_uids,
    journalled_cases,
    journalled_evictions,
)
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

TOLERANT = [{"key": "gpu", "operator": "Exists"}]


def test_a_new_taint_moves_exactly_the_pods_that_do_not_tolerate_it(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2", "n3")
    playground.deploy("web", 6)
    playground.deploy("agent", 6, tolerations=TOLERANT)
    agents, webs = playground.pods("agent"), playground.pods("web")
    doomed = playground.pods_on("web", "n1")
    assert doomed, "the scheduler spread no web pod to n1"
    assert playground.pods_on("agent", "n1"), "the scheduler spread no agent pod to n1"

    with run_controller():
        playground.taint("n1", "gpu=yes:NoSchedule")
        moved = playground.await_healthy("web", 6, off="n1")

    assert {each.uid for each in referee.evicted()} == doomed
    assert webs.keys() - moved.keys() == doomed
    assert playground.pods("agent") == agents


def test_a_label_change_moves_the_pods_whose_required_affinity_it_breaks(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2", disk="ssd")
    playground.add_nodes("n3", disk="hdd")
    playground.deploy("database", 4, affinity=manifests.requires("disk", "ssd"))
    bystanders = playground.deploy("web", 4)
    doomed = playground.pods_on("database", "n1")
    assert doomed, "the scheduler spread no database pod to n1"

    with run_controller():
        playground.relabel("n1", "disk=hdd")
        moved = playground.await_healthy("database", 4, off="n1")

    assert {each.uid for each in referee.evicted()} == doomed
    assert {pod.node for pod in moved.values()} == {playground.node("n2")}
    assert playground.pods("web") == bystanders


def test_a_disruption_budget_of_one_is_kept_and_every_pod_moves_in_the_end(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    playground.add_nodes("n1")
    doomed = playground.deploy("web", 4)
    playground.create_pdb("web", 1)
    playground.add_nodes("n2", "n3")

    with (
        playground.watch_health("web", tmp_path / "pods.log") as watch,
        run_controller() as controller,
    ):
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 4, off="n1", within_s=120)

    counts = watch.healthy_counts()
    assert min(counts[counts.index(4) :]) == 3
    assert {each.uid for each in referee.evicted()} == set(doomed)
    assert referee.audited() == journalled_evictions(controller.journal)


def test_the_audit_log_and_the_journal_agree_eviction_by_eviction(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1")
    free, guarded = playground.deploy("free", 3), playground.deploy("guarded", 3)
    shielded = playground.deploy("shielded", 1)
    playground.create_pdb("guarded", 1)
    playground.forbid_evictions("shielded")
    playground.add_nodes("n2")

    def results() -> dict[str | None, str]:
        return {each.uid: each.result for each in referee.audited()}

    with run_controller() as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        expected = dict.fromkeys(free | guarded, EVICTED) | dict.fromkeys(shielded, DENIED)
        wait_until(lambda: results() == expected, within_s=120, what=f"answers {expected}")

    assert sorted(referee.audited()) == sorted(journalled_evictions(controller.journal))
    assert playground.pods("shielded") == shielded
    assert referee.cases() == journalled_cases(controller.journal)


def test_a_dry_run_says_what_it_would_do_and_asks_the_server_for_no_eviction(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2")
    before = playground.deploy("web", 4)
    doomed = playground.pods_on("web", "n1")
    assert doomed, "the scheduler spread no web pod to n1"

    with run_controller("--dry-run") as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: dry_run_uids(controller.journal) == doomed,
            within_s=60,
            what=f"the journal tells of {doomed} in a dry run",
        )

    assert referee.audited() == []
    assert playground.pods("web") == before


def test_a_controller_killed_in_the_middle_resumes_and_evicts_no_pod_twice(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1")
    doomed = playground.deploy("web", 4)
    playground.create_pdb("web", 1)
    playground.add_nodes("n2")

    with run_controller() as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(referee.evicted, within_s=60, what="a first eviction", every_s=0.02)
        controller.kill()
        controller.start()
        playground.await_healthy("web", 4, off="n1", within_s=120)

    assert sorted(str(each.uid) for each in referee.evicted()) == sorted(doomed)
