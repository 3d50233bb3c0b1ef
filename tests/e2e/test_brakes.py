"""The brakes on a real control plane: nodes that are lost for real, evictions by the audit log."""

import time

import pytest

from reactive_desched.api.event import BRAKE_ENGAGED, BRAKE_RELEASED
from reactive_desched.journal.events import read_events
from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

ZONE = "topology.kubernetes.io/zone"
ZONE_A = ("a0", "a1", "a2", "a3", "a4")
AT_ONCE = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 0s}\nevictions: {maxInFlight: 1}\nbrakes: {zones: null}\n"
) + UNLIMITED


def test_most_of_a_zone_is_lost_and_its_pods_stay_until_the_nodes_are_back(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    zones = {name: f"{playground.namespace}-{name}" for name in "ab"}
    playground.add_nodes(ZONE_A[0], **{ZONE: zones["a"], "pool": "a"})
    playground.add_nodes("b0", **{ZONE: zones["b"], "pool": "b"})
    here = {
        pool: playground.deploy(f"w{pool}", 2, affinity=manifests.requires("pool", pool))
        for pool in "ab"
    }
    playground.add_nodes(*ZONE_A[1:], **{ZONE: zones["a"], "pool": "a"})
    playground.add_nodes("b1", **{ZONE: zones["b"], "pool": "b"})

    with run_controller() as controller:
        with control_plane.kubelets_silent():
            playground.lose(*ZONE_A[2:])
            wait_until(
                lambda: f"3 of 5 nodes of zone {zones['a']}" in controller.page("/readyz?verbose"),
                within_s=60,
                what="the zone brake engages",
            )
            controller.await_ready()
            playground.taint("a0", "gpu=yes:NoSchedule")
            playground.taint("b0", "gpu=yes:NoSchedule")
            wait_until(referee.evicted, within_s=60, what="an eviction in the other zone")
            time.sleep(5)
            assert {each.uid for each in referee.evicted()} <= here["b"].keys()
        playground.await_healthy("wa", 2, off="a0", within_s=120)
        playground.await_healthy("wb", 2, off="b0", within_s=120)
        brakes = [
            (event.type, event.data.scope)
            for event in read_events(controller.journal)
            if event.type in (BRAKE_ENGAGED, BRAKE_RELEASED)
        ]

    scope = f"zone {zones['a']}"
    assert brakes == [(BRAKE_ENGAGED, scope), (BRAKE_RELEASED, scope)]
    assert {each.uid for each in referee.evicted()} == here["a"].keys() | here["b"].keys()


def test_no_kubelet_reports_and_everything_stops_until_one_does(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    playground.add_nodes("n1")
    web = playground.deploy("web", 3)
    playground.add_nodes("n2")

    with run_controller() as controller:
        with control_plane.kubelets_silent():
            wait_until(
                lambda: (
                    "[!]brake: no node of any zone is Ready" in controller.page("/readyz?verbose")
                ),
                within_s=200,
                what="everything stops",
            )
            playground.taint("n1", "gpu=yes:NoSchedule")
            time.sleep(3)
            assert referee.audited() == []
        playground.await_healthy("web", 3, off="n1", within_s=120)

    assert {each.uid for each in referee.evicted()} == web.keys()


def test_a_node_that_is_ready_again_keeps_its_pods_while_its_taint_lags_behind(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    playground.settings = AT_ONCE
    lost = {"n1": ("False", "not-ready"), "n2": ("Unknown", "unreachable")}
    for name in (*lost, "n3"):
        playground.add_nodes(name, pool=name)
    here = {
        name: playground.deploy(f"on-{name}", 2, affinity=manifests.requires("pool", name))
        for name in (*lost, "n3")
    }
    for name in here:
        playground.add_nodes(f"{name}-free", pool=name)

    with run_controller():
        with control_plane.kubelets_silent():
            for name, (ready, taint) in lost.items():
                playground.lose(name, ready=ready)
                playground.await_taint(name, f"node.kubernetes.io/{taint}")
            with control_plane.controllers_silent():
                playground.lose(*lost, ready="True")
                # One eviction at a time, in the order of the changes: these would be the last.
                playground.taint("n3", "gpu=yes:NoSchedule")
                wait_until(
                    lambda: len(referee.evicted()) >= len(here["n3"]),
                    within_s=60,
                    what="what came after it has been acted on",
                )
                for name, (_, taint) in lost.items():
                    playground.await_taint(name, f"node.kubernetes.io/{taint}")
        playground.await_healthy("on-n3", 2, off="n3")

    assert {each.uid for each in referee.evicted()} == here["n3"].keys()
