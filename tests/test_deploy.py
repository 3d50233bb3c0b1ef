"""What deploy/ installs is whole, restricted, and allowed no more than the controller does."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli import parser
from reactive_desched.journal.paths import shared_journal_directory
from reactive_desched.model.kube_events import Regarding
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.sim.resources import RESOURCES as SIMULATED
from reactive_desched.sim.tables import columns
from reactive_desched.sim.views import View
from reactive_desched.sinks.kube_events import own_pod
from reactive_desched.state.resources import (
    GANG_RESOURCES,
    MIGRATION_RESOURCES,
    RESERVATION_RESOURCES,
    RESOURCES,
    WATCHED_KINDS,
)
from tests.support.kustomize import documents, pod_template, render
from tests.support.selection import lets_in, matches, pods, selectors
from tools.watched_kinds import verbs

Manifest = dict[str, Any]  # YAML as written by people

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
MONITORING = DEPLOY / "monitoring"
"""Rules for Prometheus, and dashboards: tests/e2e/test_alerts.py, tests/test_dashboards.py."""
DASHBOARDS = MONITORING / "dashboards"
MIGRATION = DEPLOY / "migration"
"""The CustomResourceDefinition of migration jobs, and the rights on them."""
CHARTS = DEPLOY / "charts"
"""Templates of Helm: tests/test_chart.py and tests/e2e/test_chart.py check them."""
FILES = sorted(
    path
    for path in DEPLOY.rglob("*.yaml")
    if not path.is_relative_to(MONITORING) and not path.is_relative_to(CHARTS)
)
FOLDERS = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))
APART = (DASHBOARDS, MIGRATION)
"""Folders that run nothing by themselves."""
BASE = {
    ("Namespace", "reactive-desched"),
    ("ServiceAccount", "reactive-desched"),
    ("ClusterRole", "reactive-desched"),
    ("ClusterRoleBinding", "reactive-desched"),
    ("ConfigMap", "reactive-desched"),
    ("NetworkPolicy", "reactive-desched"),
}
JOURNAL = {("PersistentVolumeClaim", "reactive-desched-journal")}
STATELESS = {
    ("Deployment", "reactive-desched"),
    ("Service", "reactive-desched"),
    ("NetworkPolicy", "reactive-desched-controller"),
}
CONTROLLER = STATELESS | JOURNAL
ADDED = {
    "base": set(),
    "controller": CONTROLLER,
    "job": {("Job", "reactive-desched"), ("PersistentVolumeClaim", "reactive-desched-job-journal")},
    "cronjob": {
        ("CronJob", "reactive-desched"),
        ("PersistentVolumeClaim", "reactive-desched-cronjob-journal"),
    },
    "examples/egress": CONTROLLER | {("NetworkPolicy", "reactive-desched-egress")},
    "examples/kafka": CONTROLLER,
    "examples/namespace": CONTROLLER,
    "examples/policy": CONTROLLER,
    "examples/resources": CONTROLLER | {("PriorityClass", "reactive-desched")},
    "examples/tokens": CONTROLLER
    | {
        ("ClusterRoleBinding", "reactive-desched-auth-delegator"),
        ("ClusterRole", "reactive-desched-metrics-reader"),
        ("ClusterRole", "reactive-desched-viewer"),
        ("ClusterRole", "reactive-desched-operator"),
    },
    "overlays/dry-run": CONTROLLER,
    "overlays/ha": STATELESS
    | {
        ("PersistentVolumeClaim", "reactive-desched-journal-shared"),
        ("Role", "reactive-desched-leader-election"),
        ("RoleBinding", "reactive-desched-leader-election"),
        ("PodDisruptionBudget", "reactive-desched"),
    },
    "overlays/no-volume": STATELESS,
    "overlays/preview": {("Job", "reactive-desched")},
}
SHARED = "examples/namespace"
"""In a namespace that is there already."""
SUFFIXES = {"overlays/preview": "-preview"}
WORKLOADS = sorted(ADDED.keys() - {"base"})
SWEEPS = ["cronjob", "job", "overlays/preview"]
DRY = ["overlays/dry-run", "overlays/preview"]
WITHOUT_VOLUME = ["overlays/no-volume", "overlays/preview"]


def one(folder: str, kind: str) -> Manifest:
    """Return the one object of a kind that a folder creates."""
    (found,) = (each for each in render(DEPLOY / folder) if each["kind"] == kind)
    return found


def of_kind(kind: str) -> Manifest:
    """Return the one object of a kind that the controller's folder creates."""
    return one("controller", kind)


def workload(folder: str) -> Manifest:
    """Return what runs our pods."""
    kinds = {"Deployment", "Job", "CronJob"}
    (found,) = (each for each in render(DEPLOY / folder) if each["kind"] in kinds)
    return found


def pod_of(folder: str) -> Manifest:
    spec: Manifest = pod_template(workload(folder))["spec"]
    return spec


def container_of(folder: str) -> Manifest:
    (container,) = pod_of(folder)["containers"]
    return dict(container)


def granted() -> Iterator[tuple[str, str, str]]:
    for rule in of_kind("ClusterRole")["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_manifest_parses_and_says_what_it_is(path: Path) -> None:
    for manifest in documents(path):
        assert {"apiVersion", "kind"} <= manifest.keys()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_folder_lists_every_file_in_it(folder: Path) -> None:
    (kustomization,) = documents(folder / "kustomization.yaml")
    beside = {path.name for path in folder.iterdir() if path.is_file()} - {"kustomization.yaml"}

    named = {name for name in kustomization.get("resources", ()) if "/" not in name}
    named |= {
        name.rpartition("=")[2]
        for each in kustomization.get("configMapGenerator", ())
        for name in each["files"]
    }
    assert named == beside


def test_every_folder_is_known_here() -> None:
    assert {str(path.relative_to(DEPLOY)) for path in FOLDERS if path not in APART} == ADDED.keys()


def test_each_dashboard_is_in_a_config_map_that_grafanas_sidecar_finds() -> None:
    maps = render(DASHBOARDS)

    shipped = {name: text for each in maps for name, text in each["data"].items()}
    assert shipped == {
        # the sidecar puts all files into one folder
        f"reactive-desched-{path.name}": path.read_text(encoding="utf-8")
        for path in DASHBOARDS.glob("*.json")
    }
    for each in maps:
        assert each["metadata"]["namespace"] == "reactive-desched"
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}


@pytest.mark.parametrize(("folder", "added"), ADDED.items())
def test_every_folder_creates_the_base_and_one_way_of_running(
    folder: str, added: set[tuple[str, str]]
) -> None:
    found = [(each["kind"], each["metadata"]["name"]) for each in render(DEPLOY / folder)]
    suffix = SUFFIXES.get(folder, "")

    created = BASE | added
    if folder == SHARED:
        created -= {("Namespace", "reactive-desched")}
    assert set(found) == {
        (kind, name if kind == "Namespace" else name + suffix) for kind, name in created
    }
    assert len(found) == len(set(found))


def test_the_role_grants_the_watched_kinds_measured_use_evictions_and_events_alone() -> None:
    reading = {
        (WATCHED_KINDS[resource].group, WATCHED_KINDS[resource].plural, verb)
        for resource in (*RESOURCES, *GANG_RESOURCES)
        for verb in verbs(WATCHED_KINDS[resource])
    }
    events = {("events.k8s.io", "events", verb) for verb in ("create", "patch")}
    acting = {("", "pods/eviction", "create")}
    use = {("metrics.k8s.io", resource, "list") for resource in ("nodes", "pods")}

    assert set(granted()) == reading | events | acting | use


def test_every_watched_kind_can_be_listed_and_watched_and_pods_can_be_read() -> None:
    reading = {
        (WATCHED_KINDS[resource].group, WATCHED_KINDS[resource].plural, verb)
        for resource in (*RESOURCES, *GANG_RESOURCES)
        for verb in ("list", "watch")
    }

    assert reading | {("", "pods", "get")} <= set(granted())


def test_the_rights_of_migration_jobs_are_granted_apart() -> None:
    (role, _) = documents(MIGRATION / "rbac.yaml")

    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {
        *MIGRATION_RESOURCES,
        *(f"{resource}/status" for resource in MIGRATION_RESOURCES),
    }


def test_the_rights_of_placeholders_are_granted_apart() -> None:
    (role, _) = documents(MIGRATION / "placeholders" / "rbac.yaml")

    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    ]


def test_the_rights_of_reservations_are_granted_apart() -> None:
    (role, _) = documents(MIGRATION / "reservations" / "rbac.yaml")

    (rule,) = role["rules"]
    assert tuple(rule["resources"]) == tuple(RESERVATION_RESOURCES)
    assert rule["apiGroups"] == [WATCHED_KINDS["reservations"].group]


@pytest.mark.parametrize(("folder", "verb"), [("deletion", "delete"), ("soft-eviction", "patch")])
def test_the_rights_of_other_eviction_policies_are_granted_apart(folder: str, verb: str) -> None:
    (role, _) = documents(MIGRATION / folder / "rbac.yaml")

    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]


def test_kubectl_prints_of_migration_jobs_what_the_simulator_prints() -> None:
    (definition,) = documents(MIGRATION / "podmigrationjobs.yaml")
    (version,) = definition["spec"]["versions"]
    printed = [each["name"] for each in version["additionalPrinterColumns"]]
    resource = SIMULATED["podmigrationjobs"]

    assert printed == [each["name"] for each in columns(View(resource))[1:]]
    names = definition["spec"]["names"]
    assert (names["kind"], names["shortNames"]) == (resource.kind, [*resource.short_names])


def test_the_page_on_security_names_what_the_role_reaches_and_nothing_else() -> None:
    text = (DEPLOY.parent / "SECURITY.md").read_text(encoding="utf-8")
    [paragraph] = [each for each in text.split("\n\n") if "rbac.yaml" in each]
    named = set(re.findall(r"`([a-z/]+)`", paragraph))

    assert named == {resource for _, resource, _ in granted()}


def test_no_rule_has_a_wildcard_or_reaches_beside_resources() -> None:
    assert not [grant for grant in granted() if any("*" in word for word in grant)]
    assert all(
        set(r) == {"apiGroups", "resources", "verbs"} for r in of_kind("ClusterRole")["rules"]
    )


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_role_is_bound_to_the_account_of_the_pods_and_to_no_other(folder: str) -> None:
    account = one(folder, "ServiceAccount")["metadata"]
    bindings = [each for each in render(DEPLOY / folder) if each["kind"] == "ClusterRoleBinding"]

    assert {each["roleRef"]["name"] for each in bindings} - {"system:auth-delegator"} == {
        account["name"]
    }
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        ]
    assert pod_of(folder)["serviceAccountName"] == account["name"]


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_pods_meet_the_restricted_standard_that_their_namespace_enforces(folder: str) -> None:
    labels = one("base", "Namespace")["metadata"]["labels"]
    pod = pod_of(folder)

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert [container["securityContext"] for container in pod["containers"]] == [
        {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    ]


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_pods_say_what_they_need_and_are_bounded_in_memory(folder: str) -> None:
    resources = container_of(folder)["resources"]

    assert resources["requests"].keys() == {"cpu", "memory"}
    assert resources["limits"].keys() == {"memory"}


def journal_of(folder: str) -> Manifest:
    """Return the volume on which every command in the container finds the journal."""
    container = container_of(folder)
    (state,) = (each for each in container["env"] if each["name"] == "STATE_DIRECTORY")
    place = str(default_journal(state["value"]))
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == place)
    (volume,) = (each for each in pod_of(folder)["volumes"] if each["name"] == mount["name"])
    assert not {"--journal", "--journal-dir"} & set(container["args"])
    return dict(volume)


def default_journal(state: str) -> Path:
    return shared_journal_directory({"STATE_DIRECTORY": state})


@pytest.mark.parametrize("folder", sorted(set(WORKLOADS) - set(WITHOUT_VOLUME)))
def test_the_journal_outlives_the_pod(folder: str) -> None:
    claim = one(folder, "PersistentVolumeClaim")["metadata"]["name"]

    assert journal_of(folder)["persistentVolumeClaim"] == {"claimName": claim}


@pytest.mark.parametrize("folder", WITHOUT_VOLUME)
def test_without_a_volume_the_journal_is_bounded(folder: str) -> None:
    assert journal_of(folder)["emptyDir"] == {"sizeLimit": "2Gi"}


def test_the_controller_and_sweeps_have_a_journal_each() -> None:
    claims = [one(each, "PersistentVolumeClaim") for each in ("controller", "job", "cronjob")]

    assert len({claim["metadata"]["name"] for claim in claims}) == 3


def test_one_controller_at_a_time_writes_the_journal() -> None:
    spec = of_kind("Deployment")["spec"]

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_policy_argument_leads_to_the_policy_in_the_config_map(folder: str) -> None:
    container = container_of(folder)
    path = Path(container["args"][container["args"].index("--policy") + 1])
    (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == str(path.parent))
    (volume,) = (each for each in pod_of(folder)["volumes"] if each["name"] == mount["name"])
    config = one(folder, "ConfigMap")

    assert volume["configMap"] == {"name": config["metadata"]["name"]}
    assert path.name in config["data"]


@pytest.mark.parametrize("folder", ["base", "examples/kafka", "examples/policy", "examples/tokens"])
def test_our_own_reader_takes_the_policy_in_the_config_map_without_a_warning(folder: str) -> None:
    text = one(folder, "ConfigMap")["data"]["policy.yaml"]
    configuration = load_sources([SourceText(text, "policy.yaml")], plugin_registry())

    assert configuration.warnings == ()
    (profile,) = configuration.policy.profiles
    assert "RemovePodsViolatingNodeTaints" in set(profile.deschedule)
    assert profile.evictor.node_fit
    assert configuration.settings.brakes.pause_file


def test_the_files_that_the_kafka_example_names_come_from_its_secret() -> None:
    text = one("examples/kafka", "ConfigMap")["data"]["policy.yaml"]
    kafka = load_sources([SourceText(text, "policy.yaml")], plugin_registry()).settings.sinks.kafka
    assert kafka is not None
    assert kafka.sasl is not None
    assert kafka.tls is not None
    mounts = container_of("examples/kafka")["volumeMounts"]
    (mount,) = (each for each in mounts if each["name"] == "kafka")

    assert {Path(str(kafka.tls.ca_file)).parent, Path(kafka.sasl.password_file).parent} == {
        Path(mount["mountPath"])
    }
    inside = [each for each in mounts if Path(mount["mountPath"]).is_relative_to(each["mountPath"])]
    assert inside == [mount], "nothing can be mounted inside a ConfigMap, which is read-only"


def test_the_certificate_that_the_tokens_example_names_comes_from_its_secret() -> None:
    text = one("examples/tokens", "ConfigMap")["data"]["policy.yaml"]
    server = load_sources([SourceText(text, "policy.yaml")], plugin_registry()).settings.server
    mounts = container_of("examples/tokens")["volumeMounts"]
    (mount,) = (each for each in mounts if each["name"] == "tls")

    assert server.require_token
    assert {Path(server.tls.cert_file).parent, Path(server.tls.key_file).parent} == {
        Path(mount["mountPath"])
    }
    assert {Path(server.tls.cert_file).name, Path(server.tls.key_file).name} == {
        "tls.crt",
        "tls.key",
    }, "the keys of a Secret of type kubernetes.io/tls"


def test_no_pod_has_a_priority_class_that_clusters_keep_to_themselves() -> None:
    named = {folder: pod_of(folder).get("priorityClassName") for folder in WORKLOADS}
    own = one("examples/resources", "PriorityClass")["metadata"]["name"]

    assert named == dict.fromkeys(WORKLOADS) | {"examples/resources": own}


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_pods_run_on_linux(folder: str) -> None:
    assert pod_of(folder)["nodeSelector"]["kubernetes.io/os"] == "linux"


def test_in_a_namespace_that_is_there_already_the_namespace_is_left_as_it_is() -> None:
    objects = render(DEPLOY / SHARED)

    assert {
        each["metadata"].get("namespace") for each in objects if "Cluster" not in each["kind"]
    } == {"kube-system"}
    for each in objects:
        assert each["kind"] != "Namespace", "its labels would be put on all pods there"
        for subject in each.get("subjects", ()):
            assert subject["namespace"] == "kube-system"


def test_the_example_of_egress_lets_names_the_api_server_and_sinks_through() -> None:
    policies = [e for e in render(DEPLOY / "examples/egress") if e["kind"] == "NetworkPolicy"]
    (rules,) = (e["spec"]["egress"] for e in policies if e["spec"]["policyTypes"] == ["Egress"])

    ports = {(each["protocol"], each["port"]) for rule in rules for each in rule["ports"]}
    assert ports >= {("UDP", 53), ("TCP", 443), ("TCP", 6443), ("TCP", 9092), ("TCP", 9090)}


@pytest.mark.parametrize("folder", WORKLOADS)
def test_nothing_selects_a_pod_that_is_not_ours(folder: str) -> None:
    (ours,) = pods(render(DEPLOY / folder))
    own = ours["metadata"]["labels"]
    # of a release of the chart in this namespace, of a chart that includes it, and of no name
    strangers: tuple[dict[str, str], ...] = (
        {},
        {"k8s-app": "kube-dns"},
        {"app.kubernetes.io/part-of": "reactive-desched"},
        own | {"app.kubernetes.io/instance": "other"},
        own | {"app.kubernetes.io/name": "other"},
        own | {"app.kubernetes.io/component": "web"},
    )
    found = list(selectors(render(DEPLOY / folder)))

    assert found
    for where, selector in found:
        # a Deployment's selector cannot be changed, and it adopts no pod of another's ReplicaSet
        left_out = [3] if where.startswith("Deployment") and "spread" not in where else []
        chosen = [n for n, each in enumerate(strangers) if matches(selector, each)]
        assert chosen == left_out, where


def test_connections_reach_the_probes_and_for_monitoring_the_metrics_and_nothing_else() -> None:
    objects = render(DEPLOY / "controller")
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    (pod,) = pods(objects)
    monitoring, other = ({"kubernetes.io/metadata.name": each} for each in ("monitoring", "web"))

    reached = {
        (port, name): lets_in(policies, pod, port, namespace)
        for port in (8081, 10258, 22)
        for name, namespace in (("monitoring", monitoring), ("web", other))
    }
    assert {where for where, reaches in reached.items() if reaches} == {
        (8081, "monitoring"),
        (8081, "web"),
        (10258, "monitoring"),
    }


@pytest.mark.parametrize("folder", SWEEPS)
def test_nothing_connects_to_the_pods_of_a_sweep(folder: str) -> None:
    objects = render(DEPLOY / folder)
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    (pod,) = pods(objects)

    assert not lets_in(policies, pod, 10258, {"kubernetes.io/metadata.name": "monitoring"})


def test_the_key_paused_of_the_config_map_is_the_pause_file() -> None:
    text = one("base", "ConfigMap")["data"]["policy.yaml"]
    settings = load_sources([SourceText(text, "policy.yaml")], plugin_registry()).settings
    container = container_of("controller")
    folder = Path(container["args"][container["args"].index("--policy") + 1]).parent
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "policy")

    assert Path(mount["mountPath"]) == folder
    assert "subPath" not in mount  # the kubelet does not update such a file
    assert settings.brakes.pause_file == str(folder / "paused")


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_command_line_takes_the_arguments_and_reads_them_as_meant(folder: str) -> None:
    arguments = parser().parse_args(container_of(folder)["args"])

    assert arguments.once is (folder in SWEEPS)
    assert arguments.dry_run is (folder in DRY)


def test_probes_and_service_meet_the_port_the_controller_listens_on() -> None:
    container = container_of("controller")
    port, probe_port = container["ports"]
    listen, probe_listen = (
        container["args"][container["args"].index(flag) + 1]
        for flag in ("--listen", "--health-probe-bind-address")
    )
    names = ("startup", "liveness", "readiness")
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in names}

    assert listen.endswith(f":{port['containerPort']}")
    assert probe_listen.endswith(f":{probe_port['containerPort']}")
    assert probes == {
        "startup": {"path": "/livez", "port": probe_port["name"]},
        "liveness": {"path": "/livez", "port": probe_port["name"]},
        "readiness": {"path": "/readyz", "port": probe_port["name"]},
    }
    assert [p["targetPort"] for p in of_kind("Service")["spec"]["ports"]] == [port["name"]]


def test_the_service_and_the_deployment_select_the_controllers_pods_and_no_sweep() -> None:
    for selector in (
        of_kind("Service")["spec"]["selector"],
        of_kind("Deployment")["spec"]["selector"]["matchLabels"],
    ):
        assert selects(selector, "controller")
        assert not any(selects(selector, folder) for folder in SWEEPS)


def selects(selector: dict[str, str], folder: str) -> bool:
    labels: dict[str, str] = pod_template(workload(folder))["metadata"]["labels"]
    return selector.items() <= labels.items()


@pytest.mark.parametrize("folder", SWEEPS)
def test_a_sweep_is_not_probed_and_tries_again_only_where_that_can_help(folder: str) -> None:
    spec = workload(folder)["spec"]
    job = spec["jobTemplate"]["spec"] if folder == "cronjob" else spec

    assert pod_of(folder)["restartPolicy"] == "Never"
    assert not {"livenessProbe", "readinessProbe", "startupProbe"} & container_of(folder).keys()
    assert job["backoffLimit"] == 2
    assert job["activeDeadlineSeconds"] == 1800
    wrong_input, disrupted = job["podFailurePolicy"]["rules"]
    assert wrong_input == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    assert (disrupted["action"], disrupted["onPodConditions"][0]["type"]) == (
        "Ignore",
        "DisruptionTarget",
    )


def test_no_two_sweeps_of_the_cron_job_overlap() -> None:
    spec = one("cronjob", "CronJob")["spec"]

    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["startingDeadlineSeconds"] < 120, "shorter than the schedule's step"
    assert spec["schedule"] == "*/2 * * * *"


@pytest.mark.parametrize("folder", DRY)
def test_a_dry_overlay_may_not_evict_and_may_do_all_else(folder: str) -> None:
    evict = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    live = of_kind("ClusterRole")["rules"]

    assert evict in live
    assert one(folder, "ClusterRole")["rules"] == [rule for rule in live if rule != evict]


@pytest.mark.parametrize("folder", DRY)
@pytest.mark.parametrize("group", ["batch.example", "a.example", "zz.example"])
def test_a_watched_kind_of_a_new_group_leaves_the_overlays_as_they_are(
    tmp_path: Path, folder: str, group: str
) -> None:
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy, ignore=shutil.ignore_patterns("charts", "monitoring"))
    role = copy / "base" / "rbac.yaml"
    added = f"  - apiGroups: [{group}]\n    resources: [others]\n    verbs: [list, watch]\n"
    text = role.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in ("  - apiGroups: [apps]", "  # end of watched"))
    place = begin if group < "apps" else end
    role.write_text(text[:place] + added + text[place:], encoding="utf-8")

    (changed,) = (each for each in render(copy / folder) if each["kind"] == "ClusterRole")
    rules = [rule for rule in changed["rules"] if rule["apiGroups"] != [group]]
    assert len(rules) == len(changed["rules"]) - 1
    assert rules == one(folder, "ClusterRole")["rules"]


def test_the_dry_run_overlay_adds_one_argument_takes_one_right_and_changes_nothing_else() -> None:
    dry, live = render(DEPLOY / "overlays/dry-run"), render(DEPLOY / "controller")
    for each in live:
        if each["kind"] == "Deployment":
            pod_template(each)["spec"]["containers"][0]["args"].append("--dry-run")
        elif each["kind"] == "ClusterRole":
            each["rules"] = one("overlays/dry-run", "ClusterRole")["rules"]

    assert dry == live


def test_a_preview_leaves_everything_of_a_controller_beside_it_alone() -> None:
    ours = {(each["kind"], each["metadata"]["name"]) for each in render(DEPLOY / "controller")}
    previews = render(DEPLOY / "overlays/preview")
    shared = ours & {(each["kind"], each["metadata"]["name"]) for each in previews}

    assert shared == {("Namespace", "reactive-desched")}
    assert container_of("overlays/preview")["args"] == [*container_of("job")["args"], "--dry-run"]


HA = "overlays/ha"


def test_two_replicas_stand_for_one_lease_that_they_alone_may_write() -> None:
    spec = one(HA, "Deployment")["spec"]
    create, write = one(HA, "Role")["rules"]
    given = parser().parse_args(container_of(HA)["args"])

    assert (spec["replicas"], given.leader_elect) == (2, True)
    assert create == {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create"],
    }
    assert write == {**create, "resourceNames": [given.resource_name], "verbs": ["get", "update"]}
    role, binding = one(HA, "Role")["metadata"], one(HA, "RoleBinding")
    assert role["namespace"] == given.resource_namespace == binding["metadata"]["namespace"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["name"])
    assert binding["subjects"] == one(HA, "ClusterRoleBinding")["subjects"]


def test_the_two_replicas_run_on_different_nodes_and_never_stop_together() -> None:
    spec, budget = one(HA, "Deployment")["spec"], one(HA, "PodDisruptionBudget")["spec"]
    by_node, by_zone = pod_of(HA)["topologySpreadConstraints"]

    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert (by_node["topologyKey"], by_node["whenUnsatisfiable"]) == (
        "kubernetes.io/hostname",
        "DoNotSchedule",
    )
    assert (by_zone["topologyKey"], by_zone["whenUnsatisfiable"]) == (
        "topology.kubernetes.io/zone",
        "ScheduleAnyway",
    )
    assert budget["minAvailable"] == 1
    labels = spec["template"]["metadata"]["labels"]
    for selector in (by_node["labelSelector"], by_zone["labelSelector"], budget["selector"]):
        assert selector["matchLabels"].items() <= labels.items()


def test_both_replicas_can_have_the_journals_volume() -> None:
    assert one(HA, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]


def test_two_replicas_after_one_change_no_field_that_cannot_be_changed() -> None:
    one_replica, two = of_kind("Deployment"), one(HA, "Deployment")
    claims = [one(each, "PersistentVolumeClaim")["metadata"]["name"] for each in ("controller", HA)]

    assert one_replica["spec"]["selector"] == two["spec"]["selector"]
    assert len(set(claims)) == 2, "the modes of a claim cannot be changed"


@pytest.mark.parametrize("folder", WORKLOADS)
def test_each_folder_pins_the_image_of_this_version(folder: str) -> None:
    image = container_of(folder)["image"]

    if folder == "examples/resources":
        assert re.fullmatch(r"[a-z./-]+@sha256:[0-9a-f]{64}", image)
    else:
        assert image == f"reactive-desched:{version('reactive-desched')}"


def test_the_controller_has_the_name_of_its_own_pod() -> None:
    told = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container_of("controller")["env"]
        if "valueFrom" in variable
    }

    assert own_pod(dict.fromkeys(told, "x")) == Regarding("Pod", "x", "x", "x")
    assert told == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
    }


def test_the_image_says_what_it_is_and_on_which_base_it_stands() -> None:
    text = (DEPLOY.parent / "Dockerfile").read_text(encoding="utf-8")
    labels = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', text))
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", text, re.MULTILINE))
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)

    assert set(bases) == {"${BASE}"}
    assert arguments["BASE"].startswith("python:")
    assert arguments["VERSION"] == version("reactive-desched")
    assert (labels["version"], labels["base.name"]) == ("${VERSION}", "${BASE}")
    assert {"title", "description", "licenses", "revision", "source"} <= labels.keys()
    inside = text[text.rindex("FROM") :]
    assert all(f"ARG {name}" in inside for name in re.findall(r"\$\{(\w+)\}", inside)[1:])


@pytest.mark.parametrize("name", ["reactive-desched", "descheduler"])
def test_the_image_answers_to_our_name_and_to_that_in_manifests_of_the_sig_descheduler(
    tmp_path: Path, name: str
) -> None:
    text = (DEPLOY.parent / "Dockerfile").read_text(encoding="utf-8")
    made = re.search(r"^RUN (printf (?:.*\\\n)*.*)", text, re.MULTILINE)
    assert made is not None
    subprocess.run(["sh", "-c", made[1].replace(" /bin/", f" {tmp_path}/")], check=True)
    (tmp_path / "python").symlink_to(sys.executable)

    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([name, "version"], check=True, capture_output=True, env=environment)

    assert said.stdout.startswith(b"reactive-desched ")
