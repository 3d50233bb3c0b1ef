"""What a release may do suffices for what its values switch on: its container runs, as its account.

KWOK starts no container, so the command of the rendered pod is started here, with its files.
"""

import base64
import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.authority import CertificateAuthority
from tests.support.chart_pod import ChartPod
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.helm import CHART, Helm
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Values = dict[str, Any]  # YAML as written by people
Release = Callable[..., ChartPod]
FORBIDDEN = 403
AT_ONCE: Values = {
    "debounce": {"quiet": "200ms", "maxWait": "2s"},
    "budgets": dict.fromkeys(("node", "zone", "namespace", "owner", "plugin", "cluster", "warmUp")),
    "brakes": {"pauseFile": "/etc/reactive-desched/paused", "storm": None},
}
"""Settings without pace."""


@pytest.fixture
def release(
    helm: Helm, control_plane: ControlPlane, playground: E2ENamespace, tmp_path: Path
) -> Iterator[Release]:
    """Install the chart with these values in the playground's namespace, and make its pod."""
    name = playground.namespace
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))

    def install(values: Values, **files: Path) -> ChartPod:
        helm.run("install", name, str(CHART), *to, values=values)
        mounted = {f"/{mount}": path for mount, path in files.items()}
        return ChartPod(control_plane, name, tmp_path / "pod", mounted)

    yield install
    helm.run("uninstall", name, *to)


def policy_of(playground: E2ENamespace) -> Values:
    policy: Values = json.loads(playground.policy())
    return policy


def refused(pod: ChartPod) -> set[tuple[str, str]]:
    return {asked for asked, codes in pod.asked().items() if FORBIDDEN in codes}


PLAIN: dict[str, Values] = {
    "default": {},
    "dry run": {"dryRun": True},
    "dry run of everything": {
        "dryRun": True,
        "settings": {"migration": {"placeholder": {}}, "guards": {"resourceClaims": "fit"}},
        "migrationJobs": {"installDefinition": True},
    },
    "two replicas": {"replicas": 2},
    "no Events": {"settings": {"events": {"kubernetes": False}}},
    "a sweep": {"kind": "Job"},
    "a sweep by schedule": {"kind": "CronJob"},
}


@pytest.mark.parametrize("values", PLAIN.values(), ids=PLAIN)
def test_the_pod_of_a_release_starts_and_is_refused_nothing(
    release: Release, playground: E2ENamespace, values: Values
) -> None:
    playground.add_nodes("n1")

    with release({"policy": policy_of(playground), **values}) as pod:
        if values.get("kind"):
            pod.await_end()
        else:
            pod.await_ready()

    assert refused(pod) == set(), pod.log
    asked = {resource for _, resource in pod.asked()}
    assert "pods" in asked
    assert ("leases" in asked) == ("replicas" in values)
    assert ("resourceclaims" in asked) == ("fit" in json.dumps(values))


def test_drains_evictions_events_and_a_token_of_prometheus_have_the_rights_that_they_take(
    release: Release, playground: E2ENamespace
) -> None:
    """A rule of the settings begins the drain, and a profile goes by measured use."""
    secret = {"namespace": playground.namespace, "name": "token"}
    playground.plugins = {"DrainNodes": {}}
    playground.balance = {
        "LowNodeUtilization": {
            "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "x"}},
            "thresholds": {"MetricResource": 30},
            "targetThresholds": {"MetricResource": 60},
        }
    }
    nowhere = {"url": "https://127.0.0.1:1", "authToken": {"secretReference": secret}}
    playground.metrics_providers = [{"source": "Prometheus", "prometheus": nowhere}]
    data = {"prometheusAuthToken": base64.b64encode(b"t").decode()}
    playground.kubectl.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": data}
    )
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 2)
    playground.add_nodes("n3")
    playground.relabel("n1", "retired=true")
    drains = [{"name": "retired", "nodeSelector": f"retired=true,{OWNER}={playground.namespace}"}]

    with release(
        {"policy": policy_of(playground), "settings": {**AT_ONCE, "drains": drains}}
    ) as pod:
        pod.await_ready()
        drained = ("get", "node", playground.node("n1"), "-o", "jsonpath={.metadata.annotations}")
        wait_until(
            lambda: "reactive-desched/drained" in playground.kubectl.run(*drained),
            within_s=90,
            what="the node is drained",
            describe=lambda: pod.log[-3000:],
        )
        asked = {*pod.asked()}

    assert refused(pod) == set(), pod.log
    done = {("create", "pods/eviction"), ("patch", "nodes"), ("get", "secrets")}
    assert done | {("create", "events")} <= asked


def test_room_is_made_and_jobs_leave_by_the_rights_of_the_chart(
    release: Release, playground: E2ENamespace
) -> None:
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 8, cpu="1500m")
    playground.deploy_each("big", cpu="3")
    values = {
        "policy": policy_of(playground),
        "settings": {**AT_ONCE, "guards": {"resourceClaims": "fit"}},
    }

    with release(values) as pod:
        pod.await_ready()
        playground.await_healthy("big", 1, within_s=90)
        playground.await_healthy("web", 8)

    assert refused(pod) == set(), pod.log
    assert {("create", "pods/eviction"), ("patch", "pods/status")} <= {*pod.asked()}


JOBS: dict[str, tuple[Values, set[tuple[str, str]]]] = {
    "by eviction, with a place kept": (
        {"defaultJobMode": "ReservationFirst", "placeholder": {}},
        {("create", "pods"), ("create", "pods/eviction")},
    ),
    "by deletion": ({"evictionPolicy": "Delete"}, {("delete", "pods")}),
}


@pytest.mark.parametrize(("migration", "done"), JOBS.values(), ids=JOBS)
def test_jobs_move_pods_by_the_rights_of_the_chart(
    release: Release, jobs: E2ENamespace, migration: Values, done: set[tuple[str, str]]
) -> None:
    jobs.add_nodes("n1")
    jobs.deploy("web", 2)
    jobs.add_nodes("n2")
    jobs.taint("n1", "gone=soon:NoSchedule")
    settings = {
        **AT_ONCE,
        "guards": {"disabled": ["StandingTime"]},
        "evictions": {"evictor": "migration"},
        "migration": migration,
    }

    with release({"policy": policy_of(jobs), "settings": settings}) as pod:
        pod.await_ready()
        wait_until(
            lambda: done <= {*pod.asked()},
            within_s=60,
            what=f"the controller asks to {done}",
            describe=lambda: pod.log[-3000:],
        )
        jobs.await_healthy("web", 2, off="n1")

    assert refused(pod) == set(), pod.log
    written = {("create", "podmigrationjobs"), ("patch", "podmigrationjobs/status")}
    assert written | done <= {*pod.asked()}


def test_nodes_are_emptied_and_pods_ranked_by_the_rights_of_the_chart(
    release: Release, playground: E2ENamespace
) -> None:
    playground.balance = {
        "ConsolidateNodes": {},
        "ScaleDownBinPack": {"evictableNamespaces": {"include": [playground.namespace]}},
    }
    playground.add_nodes("n1", "n2", "n3")
    playground.deploy("web", 6)

    with release({"policy": policy_of(playground), "settings": AT_ONCE}) as pod:
        pod.await_ready()
        done = {("patch", "pods"), ("patch", "nodes"), ("create", "pods/eviction")}
        wait_until(
            lambda: done <= {*pod.asked()},
            within_s=90,
            what=f"the controller asks to {done}",
            describe=lambda: pod.log[-3000:],
        )

    assert refused(pod) == set(), pod.log


@pytest.mark.parametrize("driver", ["", "gpu.example.com"], ids=["whole nodes", "devices"])
def test_nodes_are_kept_free_by_the_rights_of_the_chart(
    release: Release, playground: E2ENamespace, driver: str
) -> None:
    ours = {"matchLabels": {OWNER: playground.namespace}}
    wanted = {"driver": driver, "amount": 8} if driver else {"nodes": 1}
    playground.balance = {"KeepNodesFree": {"nodeSelector": ours, **wanted}}
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 4)
    guards = {"resourceClaims": "fit"} if driver else {}

    with release(
        {"policy": policy_of(playground), "settings": {**AT_ONCE, "guards": guards}}
    ) as pod:
        pod.await_ready()
        if driver:  # no node has devices of it: none is emptied
            wait_until(
                lambda: ("watch", "resourceslices") in pod.asked(),
                within_s=60,
                what="the devices are asked for",
                describe=lambda: str(pod.asked()),
            )
        else:
            done = {("patch", "nodes"), ("create", "pods/eviction")}
            wait_until(
                lambda: done <= {*pod.asked()},
                within_s=90,
                what=f"the controller asks to {done}",
                describe=lambda: pod.log[-3000:],
            )
            playground.await_healthy("web", 4)

    assert refused(pod) == set(), pod.log


def test_who_asks_for_metrics_with_tls_and_a_token_is_reviewed(
    release: Release, control_plane: ControlPlane, playground: E2ENamespace, tmp_path: Path
) -> None:
    playground.add_nodes("n1")
    folder = tmp_path / "tls"
    folder.mkdir()
    CertificateAuthority().issue(folder, "tls", "127.0.0.1")
    tls = {"certFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}
    values = {
        "policy": policy_of(playground),
        "settings": {"server": {"requireToken": True, "tls": tls}},
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }

    with release(values, tls=folder) as pod:
        pod.await_ready()
        reader = f"{playground.namespace}:reader"
        here = ("-n", playground.namespace)
        playground.kubectl.run("create", "serviceaccount", "reader", *here)
        readable = ("--verb=get", "--non-resource-url=/metrics")
        playground.kubectl.run("create", "clusterrole", reader, *readable)
        bound = (f"--clusterrole={reader}", f"--serviceaccount={reader}")
        playground.kubectl.run("create", "clusterrolebinding", reader, *bound)
        token = playground.kubectl.run("create", "token", "reader", *here)
        asked = urllib.request.Request(f"https://127.0.0.1:{pod.port}/metrics")
        asked.add_header("Authorization", f"Bearer {token.strip()}")
        with urllib.request.urlopen(asked, context=ssl._create_unverified_context()) as answer:
            assert b"reactive_desched_" in answer.read()

    assert refused(pod) == set(), pod.log
    reviews = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    assert reviews <= {*pod.asked()}
