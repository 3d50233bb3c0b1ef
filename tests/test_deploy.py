"""What deploy/ installs is whole, restricted, and allowed no more than the controller does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reactive_desched.cli import parser
from reactive_desched.planning import registry
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import configure

Manifest = dict[str, Any]  # YAML as written by people

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))


def manifests(path: Path) -> list[Manifest]:
    return list(YAML(typ="safe").load_all(path))


def of_kind(kind: str) -> Manifest:
    (found,) = (each for path in FILES for each in manifests(path) if each["kind"] == kind)
    return found


def granted() -> Iterator[tuple[str, str, str]]:
    for rule in of_kind("ClusterRole")["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_manifest_parses_and_says_what_it_is(path: Path) -> None:
    for manifest in manifests(path):
        assert {"apiVersion", "kind"} <= manifest.keys()


def test_the_base_lists_every_file_beside_it() -> None:
    (kustomization,) = manifests(DEPLOY / "base" / "kustomization.yaml")
    beside = {path.name for path in (DEPLOY / "base").iterdir()} - {"kustomization.yaml"}

    assert set(kustomization["resources"]) == beside


def test_the_role_grants_reading_what_is_judged_and_asking_for_evictions_alone() -> None:
    read = {
        ("", "nodes"),
        ("", "pods"),
        ("", "namespaces"),
        ("", "persistentvolumeclaims"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("policy", "poddisruptionbudgets"),
    }
    reading = {(*resource, verb) for resource in read for verb in ("get", "list", "watch")}

    assert set(granted()) == reading | {("", "pods/eviction", "create")}


def test_no_rule_has_a_wildcard_or_reaches_beside_resources() -> None:
    assert not [grant for grant in granted() if any("*" in word for word in grant)]
    assert all(
        set(r) == {"apiGroups", "resources", "verbs"} for r in of_kind("ClusterRole")["rules"]
    )


def test_the_role_is_bound_to_the_account_the_pods_use_and_to_nobody_else() -> None:
    binding, account = of_kind("ClusterRoleBinding"), of_kind("ServiceAccount")["metadata"]
    pod = of_kind("Deployment")["spec"]["template"]["spec"]

    assert binding["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert pod["serviceAccountName"] == account["name"]


def test_the_pods_meet_the_restricted_standard_that_their_namespace_enforces() -> None:
    labels = of_kind("Namespace")["metadata"]["labels"]
    pod = of_kind("Deployment")["spec"]["template"]["spec"]

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


def test_one_controller_at_a_time_writes_a_journal_that_outlives_it() -> None:
    spec = of_kind("Deployment")["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    folder = container["args"][container["args"].index("--journal-dir") + 1]
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == folder)
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    claim = of_kind("PersistentVolumeClaim")["metadata"]["name"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim}


def test_the_policy_argument_leads_to_the_policy_in_the_config_map() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    path = Path(container["args"][container["args"].index("--policy") + 1])
    (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == str(path.parent))
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
    config = of_kind("ConfigMap")

    assert volume["configMap"] == {"name": config["metadata"]["name"]}
    assert path.name in config["data"]


def test_our_own_reader_takes_the_policy_in_the_config_map_without_a_warning() -> None:
    text = of_kind("ConfigMap")["data"]["policy.yaml"]
    configuration = configure([Source(text, "policy.yaml")], registry())

    assert configuration.warnings == ()
    (profile,) = configuration.policy.profiles
    assert set(profile.deschedule) == {
        "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingNodeAffinity",
    }
    assert profile.evictor.node_fit


@pytest.mark.parametrize("also", [[], ["--dry-run"]], ids=["base", "dry-run overlay"])
def test_the_command_line_takes_the_arguments_of_the_deployment(also: list[str]) -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]

    arguments = parser().parse_args([*container["args"], *also])

    assert arguments.dry_run == bool(also)


def test_probes_and_service_meet_the_port_the_controller_listens_on() -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    listen = container["args"][container["args"].index("--listen") + 1]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}

    assert listen.endswith(f":{port['containerPort']}")
    assert probes == {
        "liveness": {"path": "/livez", "port": port["name"]},
        "readiness": {"path": "/readyz", "port": port["name"]},
    }
    assert [p["targetPort"] for p in of_kind("Service")["spec"]["ports"]] == [port["name"]]


def test_the_dry_run_overlay_changes_the_arguments_and_nothing_else() -> None:
    (overlay,) = manifests(DEPLOY / "overlays" / "dry-run" / "kustomization.yaml")
    (patch,) = overlay["patches"]

    assert overlay["resources"] == ["../../base"]
    assert YAML(typ="safe").load(patch["patch"]) == [
        {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--dry-run"}
    ]
