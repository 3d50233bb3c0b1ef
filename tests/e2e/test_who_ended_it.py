"""What the journal says of pods that we did not end, or may not have: on a real control plane."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reactive_desched.api.event import (
    DISRUPTION_OBSERVED,
    EVICTION_CORRECTED,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
)
from reactive_desched.journal.events import read_events
from reactive_desched.journal.records import AnyEvent
from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.limits import UNLIMITED
from tests.support.playground import OWNER, E2ENamespace, PodSnapshot
from tests.support.tcp_link import TcpLink

pytestmark = pytest.mark.real

IMPATIENT = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 0s}\nevictions: {maxInFlight: 1}\n"
    # in that time another client has done its work, also on a busy machine
    "client: {connectTimeout: 2s, readTimeout: 8s, totalTimeout: 8s}\n"
    # an Event under way would have the eviction open another connection, which is not held
    "events: {kubernetes: false}\n"
) + UNLIMITED
HELD = "e2e.reactive-desched.example/held"


def records(controller: ControllerProcess, uid: str, *types: str) -> list[AnyEvent]:
    events = read_events(controller.journal)
    return [event for event in events if event.type in types and event.data.who.uid == uid]


@contextmanager
def held_request(
    control_plane: ControlPlane, playground: E2ENamespace, kubeconfig: Path, folder: Path
) -> Iterator[tuple[ControllerProcess, TcpLink, PodSnapshot]]:
    """Run a controller whose request to evict a pod is held on its way, as by a proxy."""
    playground.add_nodes("n1", pool="a")
    playground.add_nodes("n2", pool="b")
    playground.deploy("first", 1, affinity=manifests.requires("pool", "a"))
    web = playground.deploy("web", 1, affinity=manifests.requires("pool", "b"))
    playground.add_nodes("n3", pool="a")
    playground.add_nodes("n4", pool="b")
    (pod,) = web.values()
    finalizers(playground, pod, HELD)  # it stays to be read, also when it was deleted
    with TcpLink(int(control_plane.url.rpartition(":")[2])) as link:
        through_link = folder / "kubeconfig"
        text = kubeconfig.read_text()
        through_link.write_text(text.replace(control_plane.url, f"https://127.0.0.1:{link.port}"))
        controller = ControllerProcess(folder, through_link, playground.policy(), IMPATIENT)
        with controller:
            playground.taint("n1", "gpu=yes:NoSchedule")
            wait_until(
                lambda: any(
                    event.type in EVICTION_OUTCOME_TYPES
                    for event in read_events(controller.journal)
                ),
                within_s=60,
                what="an eviction over a connection that stays",
            )
            link.hold()
            playground.taint("n2", "gpu=yes:NoSchedule")
            wait_until(
                lambda: link.holds_bytes and records(controller, pod.uid, EVICTION_REQUESTED),
                within_s=60,
                what="a request is on its way",
            )
            link.carry_new()
            yield controller, link, pod
            finalizers(playground, pod)
            if controller.alive:
                assert controller.stop() == 0, controller.tail()


def finalizers(playground: E2ENamespace, pod: PodSnapshot, *names: str) -> None:
    patch = json.dumps({"metadata": {"finalizers": list(names)}})
    options = ("--type=merge", "-p", patch)
    playground.kubectl.run("patch", "pod", pod.name, "-n", playground.namespace, *options)


def delete(playground: E2ENamespace, pod: PodSnapshot) -> None:
    playground.kubectl.run("delete", "pod", pod.name, "-n", playground.namespace, "--wait=false")


def evict(playground: E2ENamespace, pod: PodSnapshot, **options: int) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": playground.namespace},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/{playground.namespace}/pods/{pod.name}/eviction"
    playground.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def evict_with_five_seconds(playground: E2ENamespace, pod: PodSnapshot) -> None:
    evict(playground, pod, gracePeriodSeconds=5)


@pytest.mark.parametrize(
    ("another", "reasons", "cause"),
    [
        pytest.param(delete, {"FoundTerminating"}, None, id="deletes the pod"),
        pytest.param(
            evict_with_five_seconds,
            {"FoundDisrupted"},
            "EvictionByEvictionAPI",
            id="evicts the pod with another grace period",
        ),
    ],
)
def test_what_another_client_does_while_our_request_is_lost_is_no_success_of_ours(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    kubeconfig: Path,
    referee: AuditCrosscheck,
    tmp_path: Path,
    another: Callable[[E2ENamespace, PodSnapshot], None],
    reasons: set[str],
    cause: str | None,
) -> None:
    with held_request(control_plane, playground, kubeconfig, tmp_path) as (controller, _, pod):
        another(playground, pod)
        wait_until(
            lambda: records(controller, pod.uid, *EVICTION_OUTCOME_TYPES),
            within_s=60,
            what="the eviction has an outcome",
        )
        [ended] = records(controller, pod.uid, *EVICTION_OUTCOME_TYPES)
        assert ended.data.outcome.result == "unknown"
        assert ended.data.outcome.reason in reasons
        assert pod.uid not in {each.uid for each in referee.evicted()}
        assert controller.stop() == 0, controller.tail()  # what is still looked at is recorded now
        seen = [each.data.cause for each in records(controller, pod.uid, DISRUPTION_OBSERVED)]
        assert seen == ([] if cause is None else [cause])


def test_an_eviction_that_lands_after_its_outcome_is_corrected(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    kubeconfig: Path,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    with held_request(control_plane, playground, kubeconfig, tmp_path) as (controller, link, pod):
        playground.kubectl.run("taint", "node", playground.node("n2"), "gpu-")
        wait_until(
            lambda: records(controller, pod.uid, *EVICTION_OUTCOME_TYPES),
            within_s=90,
            what="the request can arrive no more",
        )
        [ended] = records(controller, pod.uid, *EVICTION_OUTCOME_TYPES)
        assert (ended.data.outcome.result, ended.data.outcome.reason) == ("failed", "FoundRunning")

        link.release()
        wait_until(
            lambda: records(controller, pod.uid, EVICTION_CORRECTED),
            within_s=60,
            what="the outcome is corrected",
        )
        [corrected] = records(controller, pod.uid, EVICTION_CORRECTED)
        assert corrected.data.corrects == ended.id
        outcome = corrected.data.outcome
        assert (outcome.result, outcome.reason) == ("unknown", "EvictedLater")
        assert records(controller, pod.uid, DISRUPTION_OBSERVED) == []
        assert pod.uid in {each.uid for each in referee.evicted()}


def test_what_others_do_to_pods_is_recorded_with_its_cause(
    playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    playground.add_nodes("n1", pool="a")
    playground.add_nodes("n2", pool="b")
    in_b = manifests.requires("pool", "b")
    tainted = playground.deploy("tainted", 1, affinity=manifests.requires("pool", "a"))
    drained, deleted = (playground.deploy(app, 1, affinity=in_b) for app in ("drained", "deleted"))
    again = playground.deploy("again", 1, affinity=in_b)
    playground.deploy("smaller", 3, affinity=in_b)
    playground.deploy("rolled", 2, affinity=in_b)
    playground.add_nodes("n3", pool="c")
    in_c = manifests.requires("pool", "c")
    preempted = playground.deploy("preempted", 1, cpu="6", affinity=in_c)
    urgent = f"{playground.namespace}-urgent"
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    playground.kubectl.apply({**head, "metadata": {"name": urgent}, "value": 1000})
    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), IMPATIENT) as controller:
        evict(playground, *drained.values())
        delete(playground, *deleted.values())
        playground.scale(1, "smaller")
        playground.roll_out("rolled")
        playground.deploy("urgent", 1, cpu="6", affinity=in_c, priorityClassName=urgent)
        playground.taint("n1", "out=yes:NoExecute")
        expected = {
            **dict.fromkeys(drained, "EvictionByEvictionAPI"),
            **dict.fromkeys(deleted, "Deleted"),
            **dict.fromkeys(tainted, "DeletionByTaintManager"),
            **dict.fromkeys(preempted, "PreemptionByScheduler"),
        }

        def seen() -> list[tuple[str, str]]:
            events = read_events(controller.journal)
            found = [event.data for event in events if event.type == DISRUPTION_OBSERVED]
            ours = [each for each in found if each.who.namespace == playground.namespace]
            return [(each.who.uid, each.cause) for each in ours]

        wait_until(lambda: len(seen()) >= len(expected), within_s=60, what="each has a record")
        playground.await_rollout("rolled")
        playground.kubectl.run("delete", "priorityclass", urgent)
        delete(playground, *again.values())
        ended = f"/debug/why?pod={playground.namespace}/{next(iter(again.values())).name}"
        wait_until(lambda: "Deleted" in controller.page(ended), within_s=60, what="it is seen")
        assert controller.stop() == 0, controller.tail()  # what waits is recorded now
        assert sorted(seen()) == sorted((expected | dict.fromkeys(again, "Deleted")).items())


def run_on(playground: E2ENamespace, kind: str, app: str, node: str) -> dict[str, PodSnapshot]:
    """Create a DaemonSet or a ReplicaSet of one pod on a node; return the healthy pod."""
    selector = {OWNER: playground.namespace, "pool": node}
    made = manifests.deployment(playground.namespace, app, 1, nodeSelector=selector)
    if kind == "DaemonSet":
        del made["spec"]["replicas"]
    playground.kubectl.apply(made | {"kind": kind})
    return playground.await_healthy(app, 1)


def test_what_owners_give_up_is_recorded_with_its_cause(
    playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    for name in ("n1", "n2", "n3"):
        playground.add_nodes(name, pool=name)
    rolled = run_on(playground, "DaemonSet", "rolled", "n1")
    closed = run_on(playground, "DaemonSet", "closed", "n2")
    gone = run_on(playground, "DaemonSet", "gone", "n3")
    scaled = run_on(playground, "ReplicaSet", "scaled", "n3")
    settings = IMPATIENT.replace(
        "kubernetes: false", "kubernetes: false, disruptions: {record: all}"
    )
    namespace, kubectl = ("-n", playground.namespace), playground.kubectl
    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), settings) as controller:
        kubectl.run("set", "image", "daemonset/rolled", "main=example.invalid/other", *namespace)
        kubectl.run("label", "node", playground.node("n2"), "pool-")
        kubectl.run("delete", "daemonset", "gone", *namespace)
        kubectl.run("scale", "replicaset/scaled", "--replicas=0", *namespace)
        expected = {
            **dict.fromkeys(rolled, "RolledOut"),
            **dict.fromkeys(closed, "ScaledDown"),
            **dict.fromkeys(gone, "OwnerGone"),
            **dict.fromkeys(scaled, "ScaledDown"),
        }

        def seen() -> dict[str, list[str]]:
            return {
                uid: [each.data.cause for each in records(controller, uid, DISRUPTION_OBSERVED)]
                for uid in expected
            }

        wait_until(lambda: all(seen().values()), within_s=60, what="each has a record")
        assert seen() == {uid: [cause] for uid, cause in expected.items()}
        assert controller.stop() == 0, controller.tail()
