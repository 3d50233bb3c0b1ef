"""What deploy/ installs is whole, restricted, and allowed no more than the controller does."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli import parser
from reactive_desched.model.kube_events import Regarding
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.sinks.kube_events import own_pod
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.kustomize import documents, pod_template, render
from tools.watched_kinds import verbs

Manifest = dict[str, Any]  # YAML as written by people

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))
FOLDERS = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))
BASE = {
    ("Namespace", "reactive-desched"),
    ("ServiceAccount", "reactive-desched"),
    ("ClusterRole", "reactive-desched"),
    ("ClusterRoleBinding", "reactive-desched"),
    ("ConfigMap", "reactive-desched"),
    ("PersistentVolumeClaim", "reactive-desched-journal"),
}
CONTROLLER = {("Deployment", "reactive-desched"), ("Service", "reactive-desched")}
ADDED = {
    "base": set(),
    "controller": CONTROLLER,
    "job": {("Job", "reactive-desched")},
    "cronjob": {("CronJob", "reactive-desched")},
    "overlays/dry-run": CONTROLLER,
    "overlays/ha": CONTROLLER
    | {
        ("Role", "reactive-desched-leader-election"),
        ("RoleBinding", "reactive-desched-leader-election"),
        ("PodDisruptionBudget", "reactive-desched"),
    },
    "overlays/preview": {("Job", "reactive-desched")},
}
WORKLOADS = sorted(ADDED.keys() - {"base"})
SWEEPS = ["cronjob", "job", "overlays/preview"]
DRY = {"overlays/dry-run", "overlays/preview"}


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
    beside = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}

    assert {name for name in kustomization["resources"] if "/" not in name} == beside


def test_every_folder_is_known_here() -> None:
    assert {str(path.relative_to(DEPLOY)) for path in FOLDERS} == ADDED.keys()


@pytest.mark.parametrize(("folder", "added"), ADDED.items())
def test_every_folder_creates_the_base_and_one_way_of_running(
    folder: str, added: set[tuple[str, str]]
) -> None:
    found = [(each["kind"], each["metadata"]["name"]) for each in render(DEPLOY / folder)]

    assert set(found) == BASE | added
    assert len(found) == len(set(found))


def test_the_role_grants_the_watched_kinds_measured_use_evictions_and_events_alone() -> None:
    reading = {
        (kind.group, kind.resource, verb) for kind in WATCHED_KINDS.values() for verb in verbs(kind)
    }
    events = {("events.k8s.io", "events", verb) for verb in ("create", "patch")}
    acting = {("", "pods/eviction", "create")}
    use = {("metrics.k8s.io", resource, "list") for resource in ("nodes", "pods")}

    assert set(granted()) == reading | events | acting | use


def test_every_watched_kind_can_be_listed_and_watched_and_pods_can_be_read() -> None:
    reading = {
        (kind.group, kind.resource, verb)
        for kind in WATCHED_KINDS.values()
        for verb in ("list", "watch")
    }

    assert reading | {("", "pods", "get")} <= set(granted())


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
def test_the_role_is_bound_to_the_account_the_pods_use_and_to_nobody_else(folder: str) -> None:
    binding, account = one(folder, "ClusterRoleBinding"), one(folder, "ServiceAccount")["metadata"]

    assert binding["roleRef"]["name"] == one(folder, "ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert pod_of(folder)["serviceAccountName"] == account["name"]


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_pods_meet_the_restricted_standard_that_their_namespace_enforces(folder: str) -> None:
    labels = one(folder, "Namespace")["metadata"]["labels"]
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


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_journal_outlives_the_pod(folder: str) -> None:
    container = container_of(folder)
    folder_inside = container["args"][container["args"].index("--journal-dir") + 1]
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == folder_inside)
    (volume,) = (each for each in pod_of(folder)["volumes"] if each["name"] == mount["name"])

    claim = one(folder, "PersistentVolumeClaim")["metadata"]["name"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim}


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


def test_our_own_reader_takes_the_policy_in_the_config_map_without_a_warning() -> None:
    text = one("base", "ConfigMap")["data"]["policy.yaml"]
    configuration = load_sources([SourceText(text, "policy.yaml")], plugin_registry())

    assert configuration.warnings == ()
    (profile,) = configuration.policy.profiles
    assert set(profile.deschedule) == {
        "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingNodeAffinity",
    }
    assert profile.evictor.node_fit


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
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}

    assert listen.endswith(f":{port['containerPort']}")
    assert probe_listen.endswith(f":{probe_port['containerPort']}")
    assert probes == {
        "liveness": {"path": "/livez", "port": probe_port["name"]},
        "readiness": {"path": "/readyz", "port": probe_port["name"]},
    }
    assert [p["targetPort"] for p in of_kind("Service")["spec"]["ports"]] == [port["name"]]


def test_the_service_and_the_deployment_select_the_controllers_pods_and_no_sweep() -> None:
    selectors = [
        of_kind("Service")["spec"]["selector"],
        of_kind("Deployment")["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
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


@pytest.mark.parametrize(
    ("overlay", "over"), [("overlays/dry-run", "controller"), ("overlays/preview", "job")]
)
def test_a_dry_overlay_adds_one_argument_and_changes_nothing_else(overlay: str, over: str) -> None:
    dry, live = render(DEPLOY / overlay), render(DEPLOY / over)
    for each in live:
        if each["kind"] == workload(over)["kind"]:
            pod_template(each)["spec"]["containers"][0]["args"].append("--dry-run")

    assert dry == live


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
    selectors = (by_node["labelSelector"], by_zone["labelSelector"], budget["selector"])
    assert all(selector == spec["selector"] for selector in selectors)


def test_both_replicas_can_have_the_journals_volume() -> None:
    assert one(HA, "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_image_is_set_in_one_place_of_each_folder(folder: str) -> None:
    assert container_of(folder)["image"] == "reactive-desched:latest"


def test_the_controller_is_told_which_pod_it_is() -> None:
    told = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in container_of("controller")["env"]
    }

    assert own_pod(dict.fromkeys(told, "x")) == Regarding("Pod", "x", "x", "x")
    assert told == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
    }


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
