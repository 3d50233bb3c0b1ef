"""The controller while the control plane fails under it; last, as these disturb the shared one."""

import time
from itertools import takewhile
from pathlib import Path

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.journal.events import read_events
from tests.support import manifests
from tests.support.audit_crosscheck import (
    AuditCrosscheck,
    disagreements,
    journalled_evictions,
    unpaired_intents,
)
from tests.support.audit_log import AuditedRequest
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace
from tests.support.tcp_link import TcpLink

pytestmark = pytest.mark.real

OUTAGE_S = 20
HELD_S = 8  # longer than the timeouts of IMPATIENT
# Long enough for back-offs that would outlast BACK_S, and together less than half a minute.
YOUNG_S, YOUNG_OUTAGE_S = 4, 15
BACK_S = 3  # after the server is ready; with the back-off of the outage: 22 s and more, each time
OUTAGES = 3  # another program may have the processor in one of them
ONE_AT_A_TIME = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 0s}\nevictions: {maxInFlight: 1}\n"
) + UNLIMITED
IMPATIENT = (
    ONE_AT_A_TIME
    # the first eviction is to be in time on a busy machine, too
    + "client: {connectTimeout: 5s, readTimeout: 5s, totalTimeout: 5s}\n"
    # an Event under way would have the eviction open another connection, which is not held
    "events: {kubernetes: false}\n"
)
NEEDED = {
    "nodes",
    "pods",
    "namespaces",
    "persistentvolumeclaims",
    "priorityclasses",
    "poddisruptionbudgets",
}
# A server that denies these for long is obeyed.
DISPENSABLE = {
    *("persistentvolumes", "csinodes", "nodemetrics"),
    *("replicasets", "jobs", "deployments", "statefulsets", "daemonsets"),
}


def brings_up_to_date(request: AuditedRequest) -> bool:
    """Whether this request renewed the controller's picture of one kind of object."""
    return request.verb in {"list", "watch"} and request.code == 200


def starts_from_nothing(request: AuditedRequest) -> bool:
    """Whether this request asked for the whole picture, as is due when history has expired."""
    return request.verb == "list" or "sendInitialEvents=true" in request.uri


def before_the_first_eviction(requests: list[AuditedRequest]) -> list[AuditedRequest]:
    """Return what the controller asked for before it asked for an eviction."""
    return list(takewhile(lambda request: not request.is_eviction, requests))


def test_an_outage_of_the_api_server_loses_no_work_and_evicts_no_pod_unseen(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    playground.add_nodes("n1")
    slow = playground.deploy("slow", 4)
    playground.create_pdb("slow", 1)
    playground.add_nodes("n2", pool="b")
    web = playground.deploy("web", 2, affinity=manifests.requires("pool", "b"))
    playground.add_nodes("n3", pool="b")

    with run_controller() as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(referee.evicted, within_s=60, what="a first eviction", every_s=0.02)
        with control_plane.outage():
            time.sleep(OUTAGE_S)
            assert controller.alive
            assert (controller.probe("/livez"), controller.probe("/readyz")) == (200, 503)
            before = control_plane.audit.size_bytes()
        playground.taint("n2", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 2, off="n2", within_s=150)
        playground.await_healthy("slow", 4, off="n1", within_s=150)
        playground.await_healthy("slow", 4, off="n2", within_s=150)

    evicted = [each.uid for each in referee.evicted()]
    assert len(evicted) == len(set(evicted))
    # A ReplicaSet whose creation of a pod was cut off may have one too many, and deletes one.
    surplus = referee.deleted_as_surplus(playground.namespace)
    left = {uid for uid, pod in {**slow, **web}.items() if pod.name not in surplus}
    assert left <= set(evicted)
    assert len(surplus) <= 2  # one for each ReplicaSet
    since = before_the_first_eviction(control_plane.audit.requests(referee.user, before))
    renewed = {each.resource for each in since if brings_up_to_date(each)}
    assert renewed - DISPENSABLE == NEEDED


def test_a_change_made_while_the_watch_was_cut_and_history_compacted_is_acted_on(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    playground.add_nodes("n1")
    doomed = playground.deploy("web", 4)
    playground.add_nodes("n2")

    with run_controller() as controller:
        wait_until(  # what changes in the midst of the first picture may be replayed otherwise
            lambda: "what the controller sees is recorded" in controller.log,
            within_s=60,
            what="the first picture of the recording is written",
        )
        controller.freeze()
        with control_plane.outage():
            pass  # the watches are cut, and the frozen controller cannot mend them in time
        playground.taint("n1", "gpu=yes:NoSchedule")
        with control_plane.outage():
            # Neither etcd nor a server that starts only now holds what came before: no watch
            # from before the cut can be resumed.
            control_plane.compact_history()
        before = control_plane.audit.size_bytes()
        controller.thaw()
        playground.await_healthy("web", 4, off="n1", within_s=150)

    assert {each.uid for each in referee.evicted()} == set(doomed)
    since = before_the_first_eviction(control_plane.audit.requests(referee.user, before))
    listed = {each.resource for each in since if starts_from_nothing(each)}
    assert listed - DISPENSABLE == NEEDED


def test_kinds_whose_list_is_young_are_listed_anew_as_soon_as_a_killed_server_is_back(
    control_plane: ControlPlane, playground: E2ENamespace, run_controller: RunController
) -> None:
    playground.add_nodes("n1")
    playground.deploy("web", 2)

    def evaluates_soon_after_an_outage(controller: ControllerProcess) -> bool:
        time.sleep(YOUNG_S)
        with control_plane.outage():
            time.sleep(YOUNG_OUTAGE_S)
            assert controller.probe("/readyz") == 503
        ready_at = time.monotonic()
        controller.await_ready()
        return time.monotonic() - ready_at <= BACK_S

    soon = []
    for _ in range(OUTAGES):
        with run_controller() as controller:  # three within a minute of one look like a bad proxy
            soon.append(evaluates_soon_after_an_outage(controller))
    assert soon.count(True) >= OUTAGES - 1


@pytest.mark.parametrize("sender", ["is killed", "gives up waiting"])
def test_a_request_that_arrives_after_its_sender_was_lost_ends_as_an_eviction(
    control_plane: ControlPlane,
    playground: E2ENamespace,
    kubeconfig: Path,
    referee: AuditCrosscheck,
    tmp_path: Path,
    sender: str,
) -> None:
    playground.add_nodes("n1", pool="a")
    playground.add_nodes("n2", pool="b")
    first = playground.deploy("first", 1, affinity=manifests.requires("pool", "a"))
    held = playground.deploy("held", 1, affinity=manifests.requires("pool", "b"))
    playground.add_nodes("n3", pool="a")
    playground.add_nodes("n4", pool="b")
    (pod,) = held

    with TcpLink(int(control_plane.url.rpartition(":")[2])) as link:
        through_link = tmp_path / "kubeconfig"
        text = kubeconfig.read_text()
        through_link.write_text(text.replace(control_plane.url, f"https://127.0.0.1:{link.port}"))
        with ControllerProcess(
            tmp_path, through_link, playground.policy(), IMPATIENT
        ) as controller:
            playground.taint("n1", "gpu=yes:NoSchedule")
            wait_until(
                referee.evicted, within_s=60, what="an eviction over a connection that stays"
            )
            link.hold()
            playground.taint("n2", "gpu=yes:NoSchedule")
            wait_until(
                lambda: link.holds_bytes and pod in records_of(controller, EVICTION_REQUESTED),
                within_s=60,
                what="a request is on its way",
            )
            link.carry_new()
            if sender == "is killed":
                time.sleep(1)
                controller.kill()
                controller.start()
            time.sleep(HELD_S)
            assert not records_of(controller, *EVICTION_OUTCOME_TYPES) & held.keys()
            assert {each.uid for each in referee.audited()} == first.keys()
            link.release()
            wait_until(
                lambda: pod in records_of(controller, *EVICTION_OUTCOME_TYPES),
                within_s=60,
                what="the request that was held has its outcome",
            )
            assert controller.stop() == 0, controller.tail()

    assert [each.uid for each in referee.audited()] == [*first, pod]
    assert disagreements(referee.evicted(), journalled_evictions(controller.journal)) == []
    assert unpaired_intents(controller.journal) == []


def test_a_controller_without_any_right_names_all_that_it_may_not_read_in_one_line(
    control_plane: ControlPlane, playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    del kubeconfig  # whose ServiceAccount has the role in deploy/
    playground.kubectl.run("create", "serviceaccount", "stranger", "-n", playground.namespace)
    stranger = control_plane.service_account_kubeconfig(playground.namespace, "stranger")
    controller = ControllerProcess(tmp_path, stranger, playground.policy())
    kinds = NEEDED | DISPENSABLE - {"nodemetrics"}  # no plugin measures

    def marks() -> dict[str, str]:
        page = controller.page("/readyz?verbose") if controller.probe("/livez") else ""
        lines = (line.partition("]sync/") for line in page.splitlines())
        denied = ((mark, rest) for mark, found, rest in lines if found and "403" in rest)
        return {rest.split(":")[0].split()[0]: mark[1:] for mark, rest in denied}

    try:
        controller.launch()
        wait_until(lambda: marks() == dict.fromkeys(kinds, "-"), within_s=60, what="none is ok")
        read = NEEDED - {"priorityclasses"}  # the policy names none
        given_up = dict.fromkeys(read, "-") | dict.fromkeys(kinds - read, "!")
        wait_until(lambda: marks() == given_up, within_s=60, what="some are given up")
        assert controller.probe("/readyz") == 503
        assert controller.stop() == 0
    finally:
        controller.kill()
    paused = next(
        line
        for line in controller.log.splitlines()
        if '"the controller is ' in line and "sync/" in line
    )
    assert {kind for kind in kinds if f"sync/{kind}: list " in paused} == kinds


def records_of(controller: ControllerProcess, *types: str) -> set[str]:
    """Return the uids of the pods that the journal has records of these types about."""
    events = read_events(controller.journal)
    return {event.data.who.uid for event in events if event.type in types}
