"""Whatever else is in its namespace and in the cluster, a release of the chart leaves it alone."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from tests.e2e.conftest import ROOT
from tests.support.control_plane import ControlPlane
from tests.support.helm import CHART, Helm, HelmError
from tests.support.kustomize import render
from tests.support.selection import lets_in, matches, pods, selectors

pytestmark = pytest.mark.real

Values = dict[str, Any]  # YAML as written by people
Object = dict[str, Any]  # a Kubernetes object as JSON
MONITORS: Values = {
    "monitoring": {
        each: {"enabled": True} for each in ("serviceMonitor", "prometheusRule", "dashboards")
    }
}
KINDS: dict[str, Values] = {
    "controller": MONITORS,
    "replicas": {"replicas": 3, "monitoring": {"podMonitor": {"enabled": True}}},
    "job": {"kind": "Job"},
    "cron job": {"kind": "CronJob"},
}
KUBE_SYSTEM: tuple[dict[str, str], ...] = (
    {},
    {"k8s-app": "kube-dns"},
    {"k8s-app": "metrics-server"},
    {"app.kubernetes.io/name": "descheduler", "app.kubernetes.io/instance": "descheduler"},
    {"app.kubernetes.io/component": "controller"},
    {"app.kubernetes.io/part-of": "reactive-desched"},
)


def umbrella(folder: Path, aliases: tuple[str, ...], name: str = "platform") -> Path:
    """Write a chart that includes ours once under each alias; ours is not copied."""
    chart = folder / name
    (chart / "charts").mkdir(parents=True)
    (chart / "charts" / "reactive-desched").symlink_to(CHART)
    included = [
        {
            "name": "reactive-desched",
            "version": "0.1.0",
            **({"alias": alias, "condition": f"{alias}.enabled"} if alias else {}),
        }
        for alias in aliases
    ]
    meta = {"apiVersion": "v2", "name": name, "version": "1.0.0", "dependencies": included}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(meta))
    return chart


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_in_a_shared_namespace_nothing_selects_a_pod_of_another(helm: Helm, values: Values) -> None:
    objects = helm.template(values, "my-release", "kube-system")
    (ours,) = pods(objects)
    found = list(selectors(objects))

    assert {where.split()[0] for where, _ in found} >= {"NetworkPolicy"}
    for where, selector in found:
        assert matches(selector, ours["metadata"]["labels"]), where
        assert not [each for each in KUBE_SYSTEM if matches(selector, each)], where


def test_probes_reach_the_controller_and_metrics_the_namespace_of_monitoring(helm: Helm) -> None:
    values: Values = {"networkPolicy": {"monitoringNamespace": "observability"}}
    objects = helm.template(values, "my-release", "kube-system")
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    (pod,) = pods(objects)

    def reaches(port: int, namespace: str) -> bool:
        return lets_in(policies, pod, port, {"kubernetes.io/metadata.name": namespace})

    assert reaches(8081, "kube-system")
    assert reaches(10258, "observability")
    assert not reaches(10258, "kube-system")
    assert not reaches(22, "observability")


def several(helm: Helm, folder: Path) -> dict[str, list[Object]]:
    """Return the objects of what may stand side by side in one namespace."""
    twice = umbrella(folder, ("", "canary", "dry"))
    kinds = {"canary": {"kind": "Deployment"}, "dry": {"dryRun": True}}
    included = helm.template(kinds, "platform", "ours", twice)
    by_chart: dict[str, list[Object]] = {}
    for each in included:
        name = re.search(r"(canary|dry|reactive-desched)", each["metadata"]["name"])
        assert name is not None
        by_chart.setdefault(f"platform, {name[1]}", []).append(each)
    return {
        "first": helm.template(MONITORS, "first", "ours"),
        "second": helm.template(MONITORS, "second", "ours"),
        "job": helm.template({"kind": "Job"}, "third", "ours"),
        "named": helm.template({"fullnameOverride": "descheduler"}, "fourth", "ours"),
        "renamed": helm.template({"nameOverride": "mover"}, "fifth", "ours"),
        "kustomization": render(ROOT / "deploy" / "controller"),
        **by_chart,
    }


def test_releases_beside_each_other_select_their_own_pods_and_share_no_name(
    helm: Helm, tmp_path: Path
) -> None:
    installed = several(helm, tmp_path)
    assert len(installed) == 9

    for (one, ours), (other, theirs) in combinations(installed.items(), 2):
        for left, right in ((ours, theirs), (theirs, ours)):
            for pod in pods(left):
                chosen = [
                    where
                    for where, selector in selectors(right)
                    if matches(selector, pod["metadata"]["labels"])
                    # it cannot be changed, and adopts no pod of another's ReplicaSet
                    and where != "Deployment reactive-desched"
                ]
                assert chosen == [], f"{one} beside {other}"
        names, taken = (
            {(each["kind"], each["metadata"]["name"]) for each in objects}
            for objects in (ours, theirs)
        )
        assert not names & taken, f"{one} beside {other}"


def test_a_long_name_is_cut_and_stays_one_of_its_own(helm: Helm, tmp_path: Path) -> None:
    release = "a-release-of-a-platform-with-a-name-as-long-as-can-b"
    both = umbrella(tmp_path, ("canary-with-a-long-name", "canary-with-a-longer-name"))
    objects = helm.template({}, release, "ours", both)

    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))
    assert all(len(name) <= 63 for _, name in names)
    labels = [pod["metadata"]["labels"] for pod in pods(objects)]
    assert all(len(value) <= 63 for each in labels for value in each.values())


def test_a_chart_that_includes_it_may_leave_it_out(helm: Helm, tmp_path: Path) -> None:
    chart = umbrella(tmp_path, ("canary", "dry"))
    values: Values = {
        "global": {"imageRegistry": "registry.example"},
        "canary": {"enabled": False},
        "dry": {"enabled": True, "dryRun": True},
    }

    (pod,) = pods(helm.template(values, "platform", "ours", chart))
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "dry"
    assert "--dry-run" in pod["spec"]["containers"][0]["args"]


def test_a_release_that_nothing_can_leave_out_does_not_run_in_silence(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"reactive-desched\.enabled.*helm uninstall desched"):
        helm.template({"enabled": False}, "desched")


def lets_out(objects: list[Object]) -> set[tuple[str, int]]:
    """Return the ports that pods may connect to at any address; all rules are for our pods."""
    (pod,) = pods(objects)
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    limited = [each for each in policies if "Egress" in each["policyTypes"]]
    assert all(matches(each["podSelector"], pod["metadata"]["labels"]) for each in limited)
    rules = [rule for each in limited for rule in each["egress"] if "to" not in rule]
    return {(each["protocol"], each["port"]) for rule in rules for each in rule["ports"]}


USUAL = {("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353), ("TCP", 443), ("TCP", 6443)}
ADDRESSES: dict[str, tuple[Values, set[int]]] = {
    "none": ({}, set()),
    "brokers": (
        {"settings": {"sinks": {"kafka": {"brokers": ["a.example:9093", "[fd00::1]:9094"]}}}},
        {9093, 9094},
    ),
    "a webhook without a port": (
        {"settings": {"sinks": {"webhook": {"url": "https://hooks.example/a:1/b"}}}},
        set(),
    ),
    "a webhook": (
        {"settings": {"sinks": {"webhook": {"url": "https://hooks.example:8443/x"}}}},
        {8443},
    ),
    "Prometheus": (
        {
            "policy": {
                "metricsProviders": [
                    {"source": "Prometheus", "prometheus": {"url": "http://prometheus.svc:9090/p"}}
                ]
            }
        },
        {9090},
    ),
    "plain http": (
        {
            "policy": {
                "metricsProviders": [
                    {"source": "Prometheus", "prometheus": {"url": "http://prometheus.svc"}}
                ]
            }
        },
        {80},
    ),
    "a proxy": ({"env": [{"name": "HTTPS_PROXY", "value": "http://u:p@proxy:3128"}]}, {3128}),
}


@pytest.mark.parametrize(("values", "ports"), ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_egress_is_limited_to_names_the_api_server_and_the_addresses_that_are_set(
    helm: Helm, values: Values, ports: set[int], kind: str
) -> None:
    limited: Values = {"kind": kind, "networkPolicy": {"egress": {"enabled": True}}}

    assert lets_out(helm.template(values | limited)) == USUAL | {("TCP", each) for each in ports}
    assert lets_out(helm.template(values | {"kind": kind})) == set()


def test_a_list_without_ports_lets_nothing_out(helm: Helm) -> None:
    """A rule without `ports` would let out every connection."""
    none: Values = {"dns": {"ports": []}, "apiServer": {"ports": []}, "services": {"ports": []}}
    policies = [
        each["spec"]
        for each in helm.template({"networkPolicy": {"egress": {"enabled": True, **none}}})
        if each["kind"] == "NetworkPolicy"
    ]

    assert [each.get("egress") for each in policies if "Egress" in each["policyTypes"]] == [None]


def test_more_of_egress_and_ingress_is_let_through_as_it_is_written(helm: Helm) -> None:
    api_server = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    rule = {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}
    web = {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}
    egress = {
        "enabled": True,
        "apiServer": {"ports": [8443], "to": api_server},
        "services": {"ports": [9092], "to": []},
        "extra": [rule],
    }
    objects = helm.template({"networkPolicy": {"egress": egress, "extraIngress": [web]}})
    rules = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]

    out = [each for spec in rules for each in spec.get("egress", ())]
    assert {"ports": [{"protocol": "TCP", "port": 8443}], "to": api_server} in out
    assert rule in out
    assert ("TCP", 9092) in lets_out(objects)
    assert web in [each for spec in rules for each in spec.get("ingress", ())]


def test_in_kube_system_policies_of_the_api_server_select_the_pods_of_the_release_alone(
    helm: Helm, control_plane: ControlPlane
) -> None:
    """As users of the SIG chart install it; what is read back is what a network plugin enforces."""
    kubectl = control_plane.kubectl()
    name = "my-release"
    to = ("-n", "kube-system", "--kubeconfig", str(control_plane.admin_kubeconfig))
    others: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"other-{at}", "namespace": "kube-system", "labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}], "nodeName": "nowhere"},
        }
        for at, labels in enumerate(KUBE_SYSTEM)
    ]
    account = ("serviceaccount/default", "-n", "kube-system")
    kubectl.run("wait", *account, "--for=create", "--timeout=60s")
    for each in others:
        kubectl.apply(each)
    egress = {"networkPolicy": {"egress": {"enabled": True}}, "replicas": 2}
    helm.run("install", name, str(CHART), *to, values=egress)
    try:
        kubectl.run(
            *("wait", "deployment", f"{name}-reactive-desched", "-n", "kube-system"),
            *("--for=jsonpath={.status.replicas}=2", "--timeout=60s"),
        )
        found = list(selectors(kubectl.get("networkpolicy,service,pdb", "-n", "kube-system")))
        running = kubectl.get("pods", "-n", "kube-system")
        ours = {
            each["metadata"]["name"]
            for each in running
            if each["metadata"]["name"].startswith(f"{name}-")
        }
        assert len(ours) == 2
        about = [where for where, _ in found if name in where]
        assert {where.split()[0] for where in about} == {
            "NetworkPolicy",
            "PodDisruptionBudget",
            "Service",
        }
        for where, selector in found:
            if name in where:
                chosen = {
                    each["metadata"]["name"]
                    for each in running
                    if matches(selector, each["metadata"].get("labels", {}))
                }
                assert chosen == ours, where
    finally:
        helm.run("uninstall", name, *to)
        kubectl.run(
            *("delete", "pod", "-n", "kube-system", "--wait=false", "--force"),
            *(each["metadata"]["name"] for each in others),
        )
    assert [each["metadata"]["name"] for each in kubectl.get("pvc", "-n", "kube-system")] == [
        f"{name}-reactive-desched-journal-shared"
    ], "the journal stays"
    kubectl.run("delete", "pvc", "-n", "kube-system", "--all", "--wait=false")
