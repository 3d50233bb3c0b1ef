"""Trouble on a real control plane, and the evictions in its audit log against the limits set."""

import logging
import re
import time
from pathlib import Path

import pytest

from reactive_desched.cli import main
from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck, above_rate, most_within
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import RunController
from tests.support.limits import NO_BUDGETS, UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

FIGURES = logging.getLogger("figures")  # shown by --log-cli-level=INFO
ZONE = "topology.kubernetes.io/zone"
HEAD = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 200ms, maxWait: 2s}
client: {readTimeout: 5s, totalTimeout: 5s}
"""
"""A pod whose request a killed controller left open is evicted 30 s after `totalTimeout`."""
NO_AGES = (
    "guards: {minPodAge: 0s, minReadyTime: 0s, "
    "standingTimes: {otherTaints: 0s, nodeLabels: 0s, openNodes: 0s}}\n"
)
OLD, APPS, REPLICAS = ("o1", "o2", "o3"), ("web", "api", "db"), 8
PER_MINUTE, BURST, MOVING = 120, 4, 2
STORM = f"""{HEAD}
{NO_AGES}brakes: {{storm: {{pods: 10, percent: 0.01}}}}
moves: {{maxMoving: {{owner: {MOVING}}}}}
budgets:
  cluster: {{evictions: {PER_MINUTE}, per: 1m, burst: {BURST}}}
  node: {{evictions: {PER_MINUTE / 2:g}, per: 1m, burst: 2}}
  owner: {{evictions: {PER_MINUTE / 2:g}, per: 1m, burst: 2}}
  zone: null
  namespace: null
  plugin: null
  warmUp: null
"""
TEN_FOUND = re.compile(r"10 pods( of namespace [\w-]+)? were found within 60 s")
STORM_LINE = re.compile(r"\[!\]brake/storm: " + TEN_FOUND.pattern)
"""Beside many pods of other tests the brake holds this namespace, without them the cluster."""


def test_a_mass_relabel_is_held_over_a_restart_and_then_goes_at_the_rates_over_another(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    playground.settings = STORM
    playground.add_nodes(*OLD, pool="a")
    affinity = manifests.requires("pool", "a")
    before = {app: playground.deploy(app, REPLICAS, affinity=affinity) for app in APPS}
    playground.add_nodes("f1", "f2", pool="a")

    with (
        playground.watch_health("web", tmp_path / "pods.log") as watch,
        run_controller() as controller,
    ):
        playground.relabel_all(*OLD, label="pool=b")
        wait_until(
            lambda: STORM_LINE.search(controller.page("/readyz?verbose")),
            within_s=60,
            what="the brake holds",
            describe=lambda: controller.page("/readyz?verbose"),
        )
        kept = controller.journal / "brakes.json"  # written at once, in a thread of the disk
        wait_until(
            lambda: kept.exists() and TEN_FOUND.search(kept.read_text(encoding="utf-8")),
            within_s=60,
            what="it is kept for the next process",
        )
        controller.kill()
        controller.start()
        assert STORM_LINE.search(controller.page("/readyz?verbose"))
        held = len(referee.evicted())
        time.sleep(3)
        assert len(referee.evicted()) == held <= BURST  # those before the tenth was found
        wait_until(
            lambda: "FindingStorm" in controller.page("/debug/pending"),
            within_s=60,
            what="the pods wait for the storm to end",
        )

        assert main(["resume", "--server", controller.url, "--reason", "it was meant"]) == 0
        wait_until(lambda: len(referee.evicted()) >= held + BURST, within_s=60, what="evictions")
        controller.kill()
        controller.start()
        wait_until(
            lambda: playground.pods_by_node().keys() <= {"f1", "f2"},
            within_s=90,
            what="all have left",
        )
        for app in APPS:
            playground.await_healthy(app, REPLICAS)

    evicted = referee.evicted_at()
    pods = {uid: pod for app in APPS for uid, pod in before[app].items()}
    # A request under way when the controller is killed may evict its pod and be logged as failed.
    cancelled = {each.uid for each in referee.audited()} - evicted.keys()
    assert evicted.keys() <= pods.keys() <= evicted.keys() | cancelled
    assert len(pods.keys() - evicted.keys()) <= 1
    assert above_rate(evicted.values(), PER_MINUTE, BURST) == []
    for node in {pod.node for pod in pods.values()}:
        here = [at for uid, at in evicted.items() if pods[uid].node == node]
        assert above_rate(here, PER_MINUTE / 2, 2) == []
    for app in APPS:
        of_app = [evicted[uid] for uid in before[app] if uid in evicted]
        assert above_rate(of_app, PER_MINUTE / 2, 2) == []
    counts = watch.healthy_counts()
    fewest = min(counts[counts.index(REPLICAS) :])
    assert fewest >= REPLICAS - MOVING
    most = {seconds: most_within(evicted.values(), seconds) for seconds in (1, 10)}
    FIGURES.info(
        "%s before the brake; most within seconds: %s; fewest Ready: %s", held, most, fewest
    )


def test_a_large_zone_that_loses_most_nodes_gives_pods_at_its_slower_rate(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    slow = "{largeZoneNodes: 4, largeZoneRate: {evictions: 30, per: 1m, burst: 1}}"
    playground.settings = f"{HEAD}{UNLIMITED}brakes: {{zones: {slow}}}\n"
    zones = {name: f"{playground.namespace}-{name}" for name in "ab"}
    here = {}
    for name in "ab":
        playground.add_nodes(f"{name}0", **{ZONE: zones[name], "pool": name})
        affinity = manifests.requires("pool", name)
        here[name] = playground.deploy(f"w{name}", 4, affinity=affinity)
        more = [f"{name}{number}" for number in range(1, 6)]
        playground.add_nodes(*more, **{ZONE: zones[name], "pool": name})

    with run_controller() as controller, control_plane.kubelets_silent():
        playground.lose("a2", "a3", "a4", "a5")
        wait_until(
            lambda: f"4 of 6 nodes of zone {zones['a']}" in controller.page("/readyz?verbose"),
            within_s=60,
            what="the zone brake engages",
        )
        playground.taint("b0", "gpu=yes:NoSchedule")  # first: the other's are to end later
        playground.taint("a0", "gpu=yes:NoSchedule")
        wait_until(
            lambda: len(referee.evicted()) == 8, within_s=60, what="all are evicted in the end"
        )

    evicted = referee.evicted_at()
    assert evicted.keys() == here["a"].keys() | here["b"].keys()
    assert above_rate([evicted[uid] for uid in here["a"]], 30, 1) == []
    times = {name: sorted(evicted[uid] for uid in uids) for name, uids in here.items()}
    FIGURES.info("each zone's took %s s", {n: round(t[-1] - t[0], 1) for n, t in times.items()})
    assert max(evicted[uid] for uid in here["b"]) < max(evicted[uid] for uid in here["a"]) - 3


def test_a_pod_under_two_disruption_budgets_is_asked_for_once_one_of_them_is_gone(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = f"{HEAD}{UNLIMITED}"
    playground.add_nodes("n1")
    web = playground.deploy("web", 2)
    playground.create_pdb("web", 1)
    playground.create_pdb("web", 1, "another")
    playground.add_nodes("n2")

    with run_controller() as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: controller.page("/debug/pending").count("SeveralDisruptionBudgets") >= len(web),
            within_s=60,
            what="both wait",
        )
        assert playground.pods("web") == web
        assert referee.audited() == []  # the API server would answer with 500
        playground.delete_pdb("another")
        deleted = time.time()
        wait_until(referee.evicted, within_s=60, what="the first of them leaves")
        first = min(referee.evicted_at().values())
        FIGURES.info("the first left %.2f s after the budget", first - deleted)
        assert first - deleted < 30  # and not after the minute of a blocked finding
        playground.await_healthy("web", 2, off="n1")

    assert referee.evicted_at().keys() == web.keys()


def test_a_rollout_during_a_drain_is_waited_for_and_one_pod_is_missing_at_most(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    playground.settings = f"{HEAD}{NO_BUDGETS}{NO_AGES}"
    playground.add_nodes("n1")
    old = playground.deploy("web", 6)
    playground.add_nodes("n2")

    with (
        playground.watch_health("web", tmp_path / "pods.log") as watch,
        run_controller() as controller,
    ):
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(referee.evicted, within_s=60, what="the drain has begun")
        playground.roll_out("web")
        wait_until(
            lambda: "RollingOut" in controller.page("/debug/pending"),
            within_s=60,
            what="the drain waits for the rollout",
        )
        seen_at = time.time()
        playground.await_rollout("web")
        over_at = time.time()
        playground.await_healthy("web", 6, off="n1")

    evicted = referee.evicted_at()
    assert evicted.keys() < old.keys()
    assert [at for at in evicted.values() if seen_at < at < over_at] == []
    counts = watch.healthy_counts()
    assert min(counts[counts.index(6) :]) == 5
    FIGURES.info("%s evicted before the rollout of %.0f s", len(evicted), over_at - seen_at)
