"""A proxy stands before the API server that keeps watches back, cuts what is idle, and refuses."""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from aiohttp import web
from anyio.from_thread import BlockingPortal, start_blocking_portal

from reactive_desched.policy.settings.guards import GuardName
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.limits import ANY_MOVES, NO_BUDGETS
from tests.support.misbehaving_proxy import (
    Buffered,
    Compressed,
    CutWhenIdle,
    Fault,
    Flushed,
    MisbehavingProxy,
    Refused,
)
from tests.support.playground import E2ENamespace
from tests.support.simulator_process import TAINT_POLICY, simulator

pytestmark = pytest.mark.real

READY_IN_A_ROW = 20
"""Twice a second: five lives of a watch that is cut."""
LATER_S = 8  # by then the protected pod would have been evicted, too
PART_BYTES = 2**14
LONG = [f"long-{number}={'x' * 2**16}" for number in range(3)]
"""More than the largest part: what follows it is within a part."""
PROTECTED = "reactive-desched/do-not-evict=true"
REFUSED_SHARE = 0.4
AWAY_WITHIN_S = 250
"""An eviction whose repeated requests failed, too, is settled after 90 s, and may fail again."""
OTHERS = [guard for guard in GuardName if guard != GuardName.DO_NOT_EVICT]
AT_ONCE = (
    (
        "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
        "debounce: {quiet: 200ms, maxWait: 2s}\n"
        f"guards: {{disabled: [{', '.join(OTHERS)}]}}\n"
    )
    + NO_BUDGETS
    + ANY_MOVES
)
"""Nothing but the annotation keeps a pod: a taint need not stand for 25 s."""


@contextmanager
def proxied(
    control_plane: ControlPlane,
    kubeconfig: Path,
    folder: Path,
    fault_of: Callable[[web.Request], Fault | None],
) -> Iterator[tuple[Path, Callable[[Callable[[web.Request], Fault | None]], None]]]:
    """Serve the proxy while the block lasts; yield the kubeconfig that leads there.

    What comes with it exchanges the faults, and breaks what is carried.
    """
    tls = ssl.create_default_context(cafile=control_plane.ca)
    proxy = MisbehavingProxy(control_plane.url, fault_of, tls=tls)
    with serving(proxy) as portal:
        through_proxy = leading_to(proxy, kubeconfig, folder)

        def misbehave(fault_of: Callable[[web.Request], Fault | None]) -> None:
            proxy.fault_of = fault_of
            portal.call(proxy.cut)

        yield through_proxy, misbehave


@contextmanager
def serving(proxy: MisbehavingProxy) -> Iterator[BlockingPortal]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(proxy.serving()),
    ):
        yield portal


def leading_to(proxy: MisbehavingProxy, kubeconfig: Path, folder: Path) -> Path:
    """Write a kubeconfig of the same cluster, whose address is the proxy's."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    path = folder / "through-the-proxy.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def watches(fault: Fault) -> Callable[[web.Request], Fault | None]:
    return lambda request: fault if request.query.get("watch") == "true" else None


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Buffered(), id="headers and all"),
        pytest.param(Buffered(holds_headers=False), id="all but headers"),
        pytest.param(Buffered(4096, holds_headers=False), id="all but 4 KiB at a time"),
        pytest.param(Buffered(PART_BYTES, holds_headers=False), id="all but 16 KiB at a time"),
        pytest.param(Compressed(), id="what a compressor keeps"),
        pytest.param(Flushed(2.5), id="all but every two and a half seconds"),
    ],
)
def test_a_pod_that_was_protected_before_the_cause_is_not_evicted_behind_a_proxy_that_buffers(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    kubeconfig: Path,
    referee: AuditCrosscheck,
    tmp_path: Path,
    fault: Fault,
) -> None:
    playground.add_nodes("n1")
    pods = playground.deploy("web", 2)
    playground.add_nodes("n2")
    kept, free = pods.values()

    with proxied(control_plane, kubeconfig, tmp_path, lambda _: None) as (through, misbehave):
        settings = AT_ONCE
        with ControllerProcess(tmp_path, through, playground.policy(), settings) as controller:
            misbehave(watches(fault))
            time.sleep(1)
            controller.await_ready()
            for annotation in LONG:
                playground.kubectl.run("annotate", "node", playground.node("n1"), annotation)
            playground.kubectl.run(
                "annotate", "pod", "-n", playground.namespace, kept.name, PROTECTED
            )
            playground.taint("n1", "gpu=yes:NoSchedule")
            # Of a proxy that passes parts: the taint is pushed through, the protection is not.
            playground.kubectl.run("annotate", "node", playground.node("n1"), "next=part")
            wait_until(referee.evicted, within_s=60, what="the other pod is evicted")
            time.sleep(LATER_S)
            assert controller.stop() == 0, controller.tail()
    assert {each.uid for each in referee.evicted()} == {free.uid}


def test_behind_a_proxy_that_cuts_what_is_idle_for_two_seconds_the_controller_stays_ready(
    control_plane: ControlPlane, playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    playground.add_nodes("n1")
    playground.deploy("web", 2)

    with proxied(control_plane, kubeconfig, tmp_path, watches(CutWhenIdle(2.0))) as (through, _):
        controller = ControllerProcess(tmp_path, through, playground.policy(), AT_ONCE)
        try:
            controller.launch()
            ready_in_a_row = 0

            def stays_ready() -> bool:
                nonlocal ready_in_a_row
                is_ready = bool(controller.probe("/livez")) and controller.probe("/readyz") == 200
                ready_in_a_row = ready_in_a_row + 1 if is_ready else 0
                return ready_in_a_row >= READY_IN_A_ROW

            wait_until(stays_ready, within_s=120, what="it stays ready", every_s=0.5)
            assert controller.stop() == 0, controller.tail()
        finally:
            controller.kill()


def test_behind_a_proxy_that_refuses_four_of_ten_requests_and_cuts_connections_pods_leave(
    tmp_path: Path,
) -> None:
    chance = Random(26)

    def refuse(_: web.Request) -> Fault | None:
        status = chance.choice((429, 500, 502, 503, 504))
        return Refused(status) if chance.random() < REFUSED_SHARE else None

    with simulator(tmp_path, 60) as cluster:
        proxy = MisbehavingProxy(cluster.url, refuse, cut_after_s=2.0)
        with serving(proxy):
            through = leading_to(proxy, cluster.kubeconfig, tmp_path)
            retried_soon = AT_ONCE + "evictions: {retry: {initial: 1s, max: 5s}}\n"
            with ControllerProcess(tmp_path, through, TAINT_POLICY, retried_soon):
                kept, *others = cluster.pods_of("node-1")
                cluster.annotate_pod(kept, PROTECTED)
                cluster.set_taints("node-1", "gpu")
                wait_until(
                    lambda: not {*others} & {*cluster.pods_of("node-1")},
                    within_s=AWAY_WITHIN_S,
                    what="all other pods leave",
                )
                assert kept in cluster.pods_of("node-1")
