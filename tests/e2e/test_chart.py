"""The Helm chart renders what kustomize renders, and real Helm and a real API server take it."""

import json
import os
import re
import shlex
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types
from pydantic import ValidationError

from reactive_desched._version import __version__
from reactive_desched.plugins.registry import plugin_registry
from tests.e2e.conftest import ROOT, do_without
from tests.support.control_plane import ControlPlane
from tests.support.golden import Golden
from tests.support.helm import CHART, RELEASE, Helm, HelmError
from tests.support.kubectl import KubectlError
from tests.support.kustomize import pod_template, render
from tools.real import operator_crds
from tools.write_chart import upstream_values

pytestmark = pytest.mark.real

Values = dict[str, Any]  # YAML as written by people
Object = dict[str, Any]  # a Kubernetes object as JSON
OPERATOR_KINDS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
READ_AT_START = "reactive-desched/read-at-start"
WORKLOAD_KINDS = ("Deployment", "Job", "CronJob")
DEFAULTS: Values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def without_release(found: Object) -> Object:
    """Return an object without what only Helm writes; a policy as its documents."""
    text = json.dumps(found).replace(f'"app.kubernetes.io/instance": "{RELEASE}", ', "")
    bare: Object = json.loads(text)
    if "policy.yaml" in bare.get("data", {}):
        bare["data"]["policy.yaml"] = list(yaml.safe_load_all(bare["data"]["policy.yaml"]))
    if bare["kind"] in (*WORKLOAD_KINDS, "Service"):
        assert bare["metadata"]["labels"].pop("app.kubernetes.io/part-of") == RELEASE
    if bare["kind"] == "Job":
        # A Job cannot be changed: each revision of a release has its own.
        bare["metadata"]["name"] = bare["metadata"]["name"].removesuffix("-1")
    if bare["kind"] == "ClusterRole":
        # The role of the kustomization allows what any policy may ask for.
        bare["rules"] = [each for each in bare["rules"] if each["apiGroups"] != ["metrics.k8s.io"]]
    if bare["kind"] in WORKLOAD_KINDS:
        (container,) = pod_template(bare)["spec"]["containers"]
        container["image"] = container["image"].partition(":")[0]
        # The chart restarts the pod where a reload would not do.
        metadata = pod_template(bare)["metadata"]
        assert metadata.pop("annotations", {}).keys() <= {READ_AT_START}
        container["env"].sort(key=lambda each: str(each["name"]))
    if bare["kind"] == "PersistentVolumeClaim":
        # `kubectl delete -k` asks no annotation.
        bare["metadata"].pop("annotations", None)
    bare["metadata"].pop("labels", None)
    return bare


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    found = map(without_release, (each for each in objects if each["kind"] != "Namespace"))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("controller", {}),
        ("overlays/dry-run", {"dryRun": True}),
        ("overlays/ha", {"replicas": 2}),
        ("overlays/no-volume", {"persistence": {"enabled": False}}),
        ("job", {"kind": "Job"}),
        ("cronjob", {"kind": "CronJob"}),
    ],
)
def test_the_chart_renders_what_the_kustomization_renders(
    helm: Helm, folder: str, values: Values
) -> None:
    ours = by_name(helm.template(values))
    theirs = by_name(render(ROOT / "deploy" / folder))

    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        assert found == theirs[name]


def test_the_chart_has_the_dashboards_that_the_kustomization_has(helm: Helm) -> None:
    dashboards = {"monitoring": {"dashboards": {"enabled": True}}}
    ours = [each for each in helm.template(dashboards) if "-dashboard-" in each["metadata"]["name"]]
    theirs = render(ROOT / "deploy" / "monitoring" / "dashboards")

    assert [(each["metadata"]["name"], each["data"]) for each in ours] == [
        (each["metadata"]["name"], each["data"]) for each in theirs
    ]
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in ours} == {"1"}


def test_lint_finds_nothing(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


WRONG: dict[str, tuple[Values, str]] = {
    "unknown value": ({"dryrun": True}, "dryrun"),
    "text for yes or no": ({"dryRun": "yes"}, "dryRun"),
    "unknown kind": ({"kind": "DaemonSet"}, "kind"),
    "text for a number": ({"replicas": "two"}, "replicas"),
    "negative number": ({"replicas": -1}, "replicas"),
    "unknown part of the image": ({"image": {"name": "x"}}, "name"),
    "bad digest": ({"image": {"digest": "sha256:1"}}, "digest"),
    "unknown access mode": ({"persistence": {"accessModes": ["RWX"]}}, "accessModes"),
    "list for a map": ({"nodeSelector": ["a"]}, "nodeSelector"),
    "map for a list": ({"tolerations": {"key": "a"}}, "tolerations"),
    "interval without a unit": (
        {"monitoring": {"podMonitor": {"interval": "30"}}},
        "monitoring/podMonitor/interval",
    ),
    "unknown section of settings": ({"settings": {"brake": {}}}, "brake"),
    "unknown setting": ({"settings": {"debounce": {"quite": "1s"}}}, "quite"),
    "setting of a wrong type": ({"settings": {"debounce": {"quiet": []}}}, "debounce/quiet"),
    "settings as text": ({"settings": "a: b"}, "settings"),
    "settings taken out": ({"settings": None}, "missing property 'settings'"),
    "image without a name": ({"image": {"repository": ""}}, "image/repository"),
    "unknown plugin": (
        {"policy": {"profiles": [{"name": "a", "pluginConfig": [{"name": "NoSuchPlugin"}]}]}},
        "pluginConfig/0/name",
    ),
    "unknown argument of a plugin": (
        {
            "policy": {
                "profiles": [
                    {
                        "name": "a",
                        "pluginConfig": [{"name": "PodLifeTime", "args": {"maxAge": 5}}],
                    }
                ]
            }
        },
        "maxAge",
    ),
    "what does not evict": (
        {"policy": {"profiles": [{"plugins": {"evict": {"enabled": ["DefaultEvictor"]}}}]}},
        "plugins/evict/enabled/0",
    ),
    "unknown field of a policy": ({"policy": {"profile": []}}, "profile"),
    "number for a variable": ({"env": [{"name": "A", "value": 5}]}, "env/0/value"),
    "variable without a name": ({"extraEnv": [{"value": "x"}]}, "missing property 'name'"),
    "label that is none": ({"nodeSelector": {"a": 'x"y'}}, "nodeSelector/a"),
    "label too long": ({"podLabels": {"a": "x" * 64}}, "podLabels/a"),
    "namespace that is none": (
        {"networkPolicy": {"monitoringNamespace": 'a"b'}},
        "networkPolicy/monitoringNamespace",
    ),
    "volume of no size": ({"persistence": {"size": "0"}}, "persistence/size"),
    "volume of less": ({"persistence": {"size": -1}}, "persistence/size"),
    "negative amount": ({"resources": {"limits": {"memory": -1}}}, "resources/limits/memory"),
    "image that is none": ({"image": {"repository": "a b"}}, "image/repository"),
    "tag that is none": ({"image": {"tag": "1+2"}}, "image/tag"),
    "text for a user": ({"podSecurityContext": {"runAsUser": "5"}}, "podSecurityContext/runAsUser"),
    "text for a list of a container": (
        {"securityContext": {"capabilities": {"drop": "ALL"}}},
        "securityContext/capabilities/drop",
    ),
    "port that is none": (
        {"networkPolicy": {"egress": {"apiServer": {"ports": [99999]}}}},
        "networkPolicy/egress/apiServer/ports/0",
    ),
}


@pytest.mark.parametrize(("values", "said"), WRONG.values(), ids=WRONG)
def test_wrong_values_fail_with_their_place(helm: Helm, values: Values, said: str) -> None:
    with pytest.raises(HelmError) as error:
        helm.template(values)

    assert said in str(error.value)


ONE_LINE: dict[str, tuple[Values, str]] = {
    "a number": (
        {"settings": {"budgets": {"cluster": {"evictions": "x"}}}},
        "at '/settings/budgets/cluster/evictions': got string, want null or integer",
    ),
    "a name": (
        {"settings": {"budgets": {"cluster": {"rate": 3}}}},
        "at '/settings/budgets/cluster': additional properties 'rate' not allowed",
    ),
    "a pattern": (
        {"settings": {"moves": {"maxMoving": {"owner": "ten"}}}},
        "at '/settings/moves/maxMoving/owner': value must be 'a whole number from 1 on, or",
    ),
    "a plugin": (
        {"policy": {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["X"]}}}]}},
        "at '/policy/profiles/0/plugins/balance/enabled/0': value must be one of",
    ),
}


@pytest.mark.parametrize(("values", "said"), ONE_LINE.values(), ids=ONE_LINE)
def test_one_wrong_value_deep_down_is_named_in_one_line(
    helm: Helm, values: Values, said: str
) -> None:
    with pytest.raises(HelmError) as error:
        helm.template(values)

    (line,) = (line for line in str(error.value).splitlines() if "- at " in line)
    assert said in line


def enabling(
    *plugins: str, config: list[Values] | None = None, point: str = "deschedule"
) -> Values:
    """Return values whose one profile enables these plugins."""
    enabled = {point: {"enabled": list(plugins)}}
    return {"policy": {"profiles": [{"pluginConfig": config or [], "plugins": enabled}]}}


def configured(plugin: str, args: Values) -> Values:
    return enabling(plugin, config=[{"name": plugin, "args": args}])


TWO_SETS = {"include": ["a"], "exclude": ["b"]}
TOLERANT: Values = {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}

SAID_PLAINLY: dict[str, tuple[Values, str]] = {
    "two that need arguments": (
        enabling("RemovePodsViolatingNodeAffinity", "RemovePodsHavingTooManyRestarts"),
        "a list with {name: RemovePodsHavingTooManyRestarts, args: {…}}",
    ),
    "one of several arguments": (
        configured("PodLifeTime", {}),
        "a section with one of: maxPodLifeTimeSeconds, states, conditions, exitCodes",
    ),
    "two that exclude each other": (
        configured("PodLifeTime", {"maxPodLifeTimeSeconds": 5, "namespaces": TWO_SETS}),
        "a section with include or exclude, not with both",
    ),
    "a selector": (
        configured("PodLifeTime", {"maxPodLifeTimeSeconds": 5, "labelSelector": TOLERANT}),
        "value must be 'empty, or left out'",
    ),
    "a duration in words": (
        {"settings": {"moves": {"cooldown": "5 minutes"}}},
        "a duration with its units, not below 0, such as 90s, 5m or 1h30m",
    ),
    "a duration without a unit": ({"settings": {"moves": {"cooldown": 300}}}, "with its units"),
    "a quantity": ({"resources": {"limits": {"memory": "512 MB"}}}, "such as 500m or 512Mi"),
    "a schedule": ({"kind": "CronJob", "schedule": "*/5 * * *"}, "the five fields of cron"),
    "a label": ({"podLabels": {"team": "a b"}}, "the value of a label: at most 63 letters"),
    "an image": ({"image": {"repository": "a b"}}, "the name of an image without its tag"),
}


@pytest.mark.parametrize(("values", "said"), SAID_PLAINLY.values(), ids=SAID_PLAINLY)
def test_an_error_says_what_to_write_and_not_what_the_schema_says(
    helm: Helm, values: Values, said: str
) -> None:
    with pytest.raises(HelmError) as error:
        helm.template(values)

    text = str(error.value)
    assert said in text
    assert not re.search(r"match pattern|contains schema|'(not|anyOf)' failed|maxItems", text)


@pytest.mark.parametrize("point", ["deschedule", "balance"])
def test_each_plugin_that_cannot_do_without_arguments_is_named_with_what_to_write(
    helm: Helm, point: str
) -> None:
    plugins = [name for name, spec in plugin_registry().items() if point in spec.points]
    needy = {name for name in plugins if needs_args(name)}

    with pytest.raises(HelmError) as error:
        helm.template(enabling(*sorted(plugins), point=point))

    assert set(re.findall(r"a list with \{name: (\w+),", str(error.value))) == needy


def needs_args(plugin: str) -> bool:
    try:
        plugin_registry()[plugin].args.model_validate({})
    except ValidationError:
        return True
    return False


UPSTREAM = upstream_values()


def test_all_values_of_the_sig_descheduler_are_answered_at_once_with_all_else_that_is_wrong(
    helm: Helm, golden: Golden
) -> None:
    theirs: Values = dict.fromkeys(UPSTREAM, "x") | {
        "image": {"repository": "registry.k8s.io/descheduler/descheduler"},
        # with another name of the same chart's that is right here
        "startingDeadlineSeconds": 200,
        "securityContext": {"runAsUser": 1000},
        "topologySpreadConstraints": [],
        "serviceAccount": {"create": True, "name": None, "automountServiceAccountToken": False},
        "imagePullSecrets": None,
        "commonLabels": {"team": "a"},
        # and what is wrong in any chart
        "replica": 2,
        "networkPolicy": {"egres": {}},
        "dryRun": "yes",
    }

    with pytest.raises(HelmError) as error:
        helm.template(theirs)
    lines = str(error.value).splitlines()
    answers = sorted(line.removeprefix("- at ") for line in lines if line.startswith("- at "))
    named = {answer.partition(":")[0] for answer in answers}
    ours = {"'/image/repository'", "''", "'/networkPolicy'", "'/dryRun'"}
    assert named == {*(f"'/{name}'" for name in UPSTREAM), *ours}
    assert "\n".join(answers) == golden()


def complaints(error: HelmError) -> list[str]:
    """Return the lines of an error that are each about a value."""
    return [line.strip() for line in str(error).splitlines() if line.startswith("  ")]


CONTRADICTIONS: dict[str, Values] = {
    "a label of the selector": {"commonLabels": {"app.kubernetes.io/name": "x"}},
    "a label of the selector on pods": {"podLabels": {"app.kubernetes.io/component": "x"}},
    "no account": {"serviceAccount": {"create": False}},
    "a variable of the chart": {"env": [{"name": "STATE_DIRECTORY", "value": "/x"}]},
    "a variable twice": {
        "env": [{"name": "A", "value": "1"}],
        "extraEnv": [{"name": "A", "value": "2"}],
    },
    "a volume of one node for several": {
        "replicas": 2,
        "persistence": {"accessModes": ["ReadWriteOnce"]},
    },
    "tokens without TLS": {"settings": {"server": {"requireToken": True}}},
    "a monitor elsewhere without a token": {
        "settings": {"server": {"requireToken": True, "tls": {"certFile": "/a"}}},
        "monitoring": {"podMonitor": {"enabled": True, "namespace": "monitoring"}},
    },
    "a tag in the repository": {"image": {"repository": "registry.example:5000/a/b:1.2"}},
    "a digest in the repository": {"image": {"repository": f"a/b@sha256:{'a' * 64}"}},
    "the account of all pods": {"serviceAccount": {"create": False, "name": "default"}},
    "no token": {"automountServiceAccountToken": False},
    "no token of the account": {"serviceAccount": {"automountServiceAccountToken": False}},
    "one flag twice": {"extraArgs": ["--log-level", "debug", "--listen=127.0.0.1:1"]},
    "no election by a flag": {"replicas": 2, "extraArgs": ["--leader-elect=false"]},
    "a sweep as a Deployment": {"extraArgs": ["--once"]},
    "an election of one": {"settings": {"leaderElection": {"leaderElect": True}}},
    "no election of two": {
        "replicas": 2,
        "settings": {"leaderElection": {"leaderElect": False}},
    },
    "jobs that no settings describe": {"settings": {"evictions": {"evictor": "migration"}}},
    "jobs of a profile that no settings describe": {
        "settings": {"evictions": {"perProfile": {"default": "migration"}}},
    },
    "a pause that nothing reads": {"paused": True, "settings": {"brakes": {"pauseFile": "/p"}}},
    "a pause without a pause file": {"paused": "me", "settings": {"brakes": None}},
    "a paused cron job that reads none": {
        "kind": "CronJob",
        "paused": "until Monday",
        "settings": {"brakes": {"pauseFile": ""}},
    },
    "a volume of the chart": {"extraVolumes": [{"name": "journal", "emptyDir": {}}]},
    "a volume twice": {"extraVolumes": [{"name": "a", "emptyDir": {}}] * 2},
    "a mount without a volume": {"extraVolumeMounts": [{"name": "a", "mountPath": "/a"}]},
    "a mount over the policy": {
        "extraVolumes": [{"name": "a", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "a", "mountPath": "/etc/reactive-desched/"}],
    },
    "a container of the chart": {"initContainers": [{"name": "reactive-desched"}]},
    "root that is not to be": {"podSecurityContext": {"runAsUser": 0}},
    "root in the container": {"securityContext": {"runAsUser": 0}},
    "egress without a policy": {
        "networkPolicy": {"enabled": False, "egress": {"enabled": True}},
    },
    "two monitors": {
        "monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
    },
    "a claim that is not mounted": {"persistence": {"enabled": False, "existingClaim": "mine"}},
}


def test_all_that_contradicts_itself_is_named_in_one_run(helm: Helm) -> None:
    beside = {
        "image": {"repository": "a/b:1.2"},
        "commonLabels": {"app.kubernetes.io/name": "x"},
        "replicas": 2,
        "persistence": {"accessModes": ["ReadWriteOnce"]},
        "serviceAccount": {"create": False, "name": "default"},
        "automountServiceAccountToken": False,
        "env": [{"name": "POD_UID", "value": "x"}],
        "extraArgs": ["--once", "--leader-elect=false"],
        "paused": True,
        "settings": {
            "brakes": {"pauseFile": "/elsewhere"},
            "leaderElection": {"leaderElect": False},
            "server": {"requireToken": True},
        },
        "podSecurityContext": {"runAsUser": 0},
        "networkPolicy": {"enabled": False, "egress": {"enabled": True}},
        "monitoring": {
            "serviceMonitor": {"enabled": True, "namespace": "monitoring"},
            "podMonitor": {"enabled": True},
        },
    }
    with pytest.raises(HelmError) as error:
        helm.template(beside)
    places = {each.partition(":")[0] for each in complaints(error.value)}
    assert places == {
        "image.repository",
        "commonLabels",
        "persistence.accessModes",
        "serviceAccount.name",
        "automountServiceAccountToken",
        "env",
        "extraArgs",
        "paused",
        "settings.leaderElection.leaderElect",
        "settings.server.requireToken",
        "podSecurityContext.runAsUser",
        "networkPolicy.egress.enabled",
        "monitoring.serviceMonitor.authorization",
        "monitoring.podMonitor.enabled",
    }


@pytest.mark.parametrize("kind", ["Deployment", "Job", "CronJob"])
def test_a_pause_is_a_word_a_reason_or_true(helm: Helm, kind: str) -> None:
    for paused, written in ((True, "true"), ("me", "me"), (False, None), ("", None)):
        (found,) = (
            each["data"].get("paused")
            for each in helm.template({"kind": kind, "paused": paused})
            if each["kind"] == "ConfigMap" and "policy.yaml" in each["data"]
        )
        assert found == written


def test_flags_accounts_and_volumes_that_go_together_are_taken(helm: Helm) -> None:
    helm.template(
        {
            "image": {"repository": "registry.example:5000/a/b", "tag": "1.2"},
            "extraArgs": ["--leader-elect-lease-duration=30s", "--log-level", "debug"],
            "serviceAccount": {"create": False, "name": "mover"},
            "automountServiceAccountToken": False,
            "extraVolumes": [{"name": "token", "secret": {"secretName": "t"}}],
            "extraVolumeMounts": [
                {"name": "token", "mountPath": "/var/run/secrets"},
                {"name": "policy", "mountPath": "/also"},
            ],
            "securityContext": {"runAsUser": 1000},
            "podSecurityContext": {"runAsUser": 0},
        }
    )


@pytest.mark.parametrize("values", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused(
    helm: Helm, golden: Golden, values: Values
) -> None:
    with pytest.raises(HelmError) as error:
        helm.template(values)

    (complaint,) = complaints(error.value)
    assert complaint == golden()


def test_a_value_of_null_takes_a_default_out_and_breaks_nothing(helm: Helm) -> None:
    sections = ("image", "persistence", "serviceAccount", "policy", "settings")
    nulls: Values = dict.fromkeys(DEFAULTS.keys() - {*sections})
    nulls["settings"] = {"server": None, "events": None, "migration": None}
    nulls["serviceAccount"] = {"name": None, "annotations": None}
    nulls["image"] = {"tag": None, "digest": None}
    nulls["persistence"] = {"accessModes": None, "storageClassName": None, "existingClaim": None}

    assert {each["kind"] for each in helm.template(nulls)} >= {"Deployment", "NetworkPolicy"}


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_values_of_a_version_that_had_fewer_are_completed_by_the_defaults(
    helm: Helm, tmp_path: Path, kind: str
) -> None:
    older = shutil.copytree(CHART, tmp_path / "reactive-desched")
    had = {name: DEFAULTS[name] for name in ("policy", "settings", "securityContext")}
    had |= {"image": {"repository": "r.example/desched"}, "persistence": {"keep": False}}
    # `helm upgrade --reuse-values` takes these for the values of the new version
    (older / "values.yaml").write_text(json.dumps(had))

    objects = by_name(helm.template({"kind": kind}, chart=older))

    asked = {"kind": kind, "image": had["image"], "persistence": {"keep": False}}
    now = by_name(helm.template(asked))
    assert objects.keys() == now.keys()
    for key in objects.keys() - {(kind, RELEASE)}:
        assert objects[key] == now[key]
    _, container = pod_and_container(list(objects.values()))
    assert container["image"] == "r.example/desched"


OWN = "RemovePodsFromRetiringNodes"


def with_plugins(*names: str, at: str = "deschedule", own: tuple[str, ...] = (OWN,)) -> Values:
    profile = {
        "name": "a",
        "pluginConfig": [{"name": name, "args": {"label": "x"}} for name in names if name == OWN],
        "plugins": {at: {"enabled": list(names)}},
    }
    return {"policy": {"profiles": [profile, None]}, "ownPlugins": list(own)}


def test_a_policy_names_plugins_that_the_values_say_the_image_has(helm: Helm) -> None:
    settings = {
        "debounce": {"perPlugin": {OWN: {"quiet": "2s"}}},
        "guards": {"ignoredBy": {OWN: []}},
    }
    values = with_plugins("RemoveFailedPods", OWN)

    objects = helm.template({**values, "settings": settings})
    (config,) = (each["data"] for each in objects if "policy.yaml" in each.get("data", {}))
    policy, written = yaml.safe_load_all(config["policy.yaml"])
    assert policy["profiles"] == values["policy"]["profiles"]
    assert written["debounce"] == settings["debounce"]


def test_without_that_the_error_names_the_plugin_and_the_value_to_write(helm: Helm) -> None:
    settings = {"debounce": {"perPlugin": {OWN: {"quiet": "2s"}}}}

    with pytest.raises(HelmError) as error:
        helm.template({**with_plugins(OWN, own=()), "settings": settings})
    for place in ("pluginConfig/0/name", "deschedule/enabled/0", "debounce/perPlugin"):
        assert place in str(error.value)
    assert str(error.value).count("with its name under `ownPlugins`") == 3


def test_beside_plugins_of_the_image_a_misspelt_name_is_named_with_its_place(
    helm: Helm, golden: Golden
) -> None:
    wrong = with_plugins("PodLifeTimes", "LowNodeUtilization", OWN, own=(OWN, "DrainNodes"))
    settings = {
        "debounce": {"perPlugin": {"Odd": {"quiet": "2s"}}},
        "guards": {"ignoredBy": {"Even": []}},
    }

    with pytest.raises(HelmError) as error:
        helm.template({**wrong, "settings": settings})
    ours = yaml.safe_load((CHART / "files" / "plugins.yaml").read_text(encoding="utf-8"))
    names = {"deschedule": ours["deschedule"], "every": sorted(chain(*ours.values()))}
    lists = {key: ", ".join(each) for key, each in names.items()}
    assert "\n".join(complaints(error.value)) == golden(**lists)


def read_at_start(helm: Helm, values: Values) -> str:
    template, _ = pod_and_container(helm.template(values))
    found: str = template["metadata"]["annotations"][READ_AT_START]
    return found


AT_START: tuple[Values, ...] = (
    {"sinks": {"kafka": {"brokers": ["a:9092"]}}},
    {"sinks": {"mine": {"any": 1}}},
    {"migration": {}},
    {"events": {"cluster": "prod"}},
    {"evictions": {"maxInFlight": 7}},
    {"recording": {"enabled": False}},
)
WHILE_IT_RUNS: tuple[Values, ...] = (
    {"settings": {"pace": "fast", "budgets": {"zone": None}}},
    {"settings": {"events": {"kubernetes": False}}},
    {"settings": {"evictions": {"retry": {"initial": "5s"}}, "guards": None, "sinks": None}},
    {"policy": {"profiles": []}},
    {"paused": "me"},
)


@pytest.mark.parametrize("settings", AT_START, ids=str)
def test_a_change_of_what_is_read_at_the_start_restarts_the_pod(
    helm: Helm, settings: Values
) -> None:
    assert read_at_start(helm, {"settings": settings}) != read_at_start(helm, {})


def test_a_change_of_a_profiles_migration_controller_restarts_the_pod(helm: Helm) -> None:
    """Its arguments become the settings `migration`, which are read at the start only."""

    def with_jobs(per_node: int) -> Values:
        args = {"maxMigratingPerNode": per_node}
        profile = {
            "name": "a",
            "pluginConfig": [{"name": "MigrationController", "args": args}],
            "plugins": {"evict": {"enabled": ["MigrationController"]}},
        }
        return {"policy": {"profiles": [profile]}}

    found = {read_at_start(helm, values) for values in ({}, with_jobs(1), with_jobs(2))}
    assert len(found) == 3


def test_any_other_change_leaves_the_pod_running(helm: Helm) -> None:
    found = {read_at_start(helm, values) for values in ({}, *WHILE_IT_RUNS)}

    assert len(found) == 1


def granted(objects: list[Object], kind: str) -> set[str]:
    rules = [rule for each in objects if each["kind"] == kind for rule in each["rules"]]
    return {
        f"{group}/{r}" for rule in rules for group in rule["apiGroups"] for r in rule["resources"]
    }


def test_a_profile_of_koordinators_has_the_rights_that_its_jobs_take(helm: Helm) -> None:
    args = {"evictionPolicy": "SoftEviction", "schedulerNames": ["koord-scheduler"]}
    profile: Values = {
        "name": "a",
        "pluginConfig": [{"name": "MigrationController", "args": args}],
        "plugins": {
            "evict": {"enabled": ["MigrationController"]},
            "filter": {"enabled": ["MigrationController"]},
            "deschedule": {"enabled": ["RemoveFailedPods"]},
        },
    }
    by_policy = helm.template({"policy": {"profiles": [None, profile]}})
    by_settings = helm.template({"settings": {"migration": args}})

    assert granted(by_policy, "ClusterRole") == granted(by_settings, "ClusterRole")
    assert "scheduling.koordinator.sh/podmigrationjobs" in granted(by_policy, "ClusterRole")
    del profile["plugins"]["evict"]
    left = helm.template({"policy": {"profiles": [profile]}})
    assert granted(left, "ClusterRole") == granted(helm.template({}), "ClusterRole")


def test_rights_follow_from_what_is_on(helm: Helm) -> None:
    plain = helm.template({})
    measured = {"metricsProviders": [{"source": "KubernetesMetrics"}]}
    other = helm.template(
        {
            "dryRun": True,
            "replicas": 2,
            "policy": measured,
            "settings": {"events": {"kubernetes": False}},
        }
    )

    before, after = granted(plain, "ClusterRole"), granted(other, "ClusterRole")
    assert before - after == {"/pods/eviction", "events.k8s.io/events"}
    assert after - before == {"metrics.k8s.io/nodes", "metrics.k8s.io/pods"}
    assert granted(plain, "Role") == set()
    assert granted(other, "Role") == {"coordination.k8s.io/leases"}


def test_the_secret_with_the_token_of_prometheus_may_be_read_and_no_other(helm: Helm) -> None:
    reference = {"namespace": "monitoring", "name": "its-token"}
    prometheus = {"url": "https://prometheus:9090", "authToken": {"secretReference": reference}}
    provider = {"source": "Prometheus", "prometheus": prometheus}
    objects = helm.template({"policy": {"metricsProviders": [provider]}})

    (role,) = (each for each in objects if each["kind"] == "Role")
    (binding,) = (each for each in objects if each["kind"] == "RoleBinding")
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["its-token"],
            "verbs": ["get"],
        }
    ]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "monitoring"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["namespace"] for each in binding["subjects"]] == [RELEASE]
    (plain,) = ({"source": "Prometheus", "prometheus": {"url": "http://prometheus:9090"}},)
    assert granted(helm.template({"policy": {"metricsProviders": [plain]}}), "Role") == set()


def rules_on_jobs(objects: list[Object]) -> list[Object]:
    rules = [rule for each in objects if each["kind"] == "ClusterRole" for rule in each["rules"]]
    return [rule for rule in rules if rule["apiGroups"] == ["scheduling.koordinator.sh"]]


def writes_of_pods(objects: list[Object]) -> list[Object]:
    rules = [rule for each in objects if each["kind"] == "ClusterRole" for rule in each["rules"]]
    return [
        rule
        for rule in rules
        if rule["resources"] in (["pods"], ["pods/status"]) and "list" not in rule["verbs"]
    ]


def definitions(objects: list[Object]) -> list[Object]:
    return [each for each in objects if each["kind"] == "CustomResourceDefinition"]


def test_rights_on_migration_jobs_are_those_of_the_kustomization_where_settings_have_jobs(
    helm: Helm,
) -> None:
    jobs: Values = {"settings": {"migration": {}}}

    theirs = rules_on_jobs(render(ROOT / "deploy" / "migration"))
    assert theirs
    assert rules_on_jobs(helm.template(jobs)) == theirs
    assert rules_on_jobs(helm.template({})) == []
    assert rules_on_jobs(helm.template({"settings": {"migration": None}})) == []
    text = (ROOT / "deploy/migration/reservations/rbac.yaml").read_text(encoding="utf-8")
    reserved, _ = yaml.safe_load_all(text)
    reserving: Values = {"settings": {"migration": {"schedulerNames": ["koord-scheduler"]}}}
    assert rules_on_jobs(helm.template(reserving)) == [*theirs, *reserved["rules"]]
    (dry,) = rules_on_jobs(helm.template(jobs | {"dryRun": True}))
    assert dry["verbs"] == ["get", "list", "watch"]


@pytest.mark.parametrize(
    ("option", "folder"),
    [
        ({"placeholder": {}}, "placeholders"),
        ({"evictionPolicy": "Delete"}, "deletion"),
        ({"evictionPolicy": "SoftEviction"}, "soft-eviction"),
    ],
)
def test_rights_on_pods_are_those_of_the_option_that_the_settings_have(
    helm: Helm, option: Values, folder: str
) -> None:
    values: Values = {"settings": {"migration": option}}
    text = (ROOT / "deploy" / "migration" / folder / "rbac.yaml").read_text(encoding="utf-8")
    role, _ = yaml.safe_load_all(text)

    assert writes_of_pods(helm.template(values)) == role["rules"]
    assert writes_of_pods(helm.template({"settings": {"migration": {}}})) == []
    assert writes_of_pods(helm.template(values | {"dryRun": True})) == []


def test_the_definition_of_migration_jobs_is_an_option_that_stays(helm: Helm) -> None:
    (theirs,) = definitions(render(ROOT / "deploy" / "migration"))
    (ours,) = definitions(helm.template({"migrationJobs": {"installDefinition": True}}))

    assert definitions(helm.template({})) == []
    assert ours["spec"] == theirs["spec"]
    assert ours["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definition_of_migration_jobs_is_not_installed_over_another(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    (definition,) = definitions(render(ROOT / "deploy" / "migration"))
    name = definition["metadata"]["name"]
    # a namespace of its own: other tests have the controller's ServiceAccount in the usual one
    command = ("install", RELEASE, str(CHART), "-n", "chart", "--dry-run=server")
    where = ("--kubeconfig", str(control_plane.admin_kubeconfig))
    values: Values = {"migrationJobs": {"installDefinition": True}}

    kubectl.run("delete", "crd", name, "--ignore-not-found")  # which tests of jobs leave behind
    assert name in helm.run(*command, *where, values=values)
    kubectl.run("create", "-f", "-", stdin=json.dumps(definition))
    try:
        assert name not in helm.run(*command, *where, values=values)
        owner = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": "chart"}
        marks = {"annotations": owner, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        patch = json.dumps({"metadata": marks})
        kubectl.run("patch", "crd", name, "--type", "merge", "-p", patch)
        assert name in helm.run(*command, *where, values=values)
    finally:
        kubectl.run("delete", "crd", name)


TLS: Values = {
    "settings": {
        "server": {"tls": {"certFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}},
    },
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
}
TOKENS: Values = TLS | {"settings": {"server": TLS["settings"]["server"] | {"requireToken": True}}}
EVERYTHING: Values = {
    **TOKENS,
    "replicas": 2,
    "settings": TOKENS["settings"] | {"migration": {}},
    "migrationJobs": {"installDefinition": True},
    "monitoring": {
        name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboards")
    },
}
BY_PODS: Values = EVERYTHING | {"monitoring": {"podMonitor": {"enabled": True}}}
VARIANTS: dict[str, Values] = {
    "default": {},
    "dry run": {"dryRun": True},
    "everything": EVERYTHING,
    "scraped by pods": BY_PODS,
    "job": {"kind": "Job"},
    "cron job": {"kind": "CronJob", "timeZone": "Etc/UTC", "suspend": True},
    "all that a pod may have": {
        "nameOverride": "mover",
        "commonLabels": {"team": "a", "app.kubernetes.io/part-of": "platform"},
        "commonAnnotations": {"owner": "a"},
        "podLabels": {"tier": "b"},
        "podAnnotations": {"c": "d"},
        "imagePullSecrets": [{"name": "one"}, "two"],
        "image": {"digest": f"sha256:{'a' * 64}"},
        "env": [{"name": "A", "value": "5"}],
        "extraEnv": [
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "envFrom": [{"secretRef": {"name": "secret", "optional": True}}],
        "initContainers": [{"name": "first", "image": "busybox"}],
        "extraContainers": [{"name": "beside", "image": "busybox"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"team": "a"}},
            }
        ],
        "affinity": {"podAntiAffinity": {}},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"]},
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["kafka"]}],
        "automountServiceAccountToken": False,
        "podSecurityContext": {"runAsUser": None, "fsGroup": None},
        "resources": {"limits": {"cpu": 1}},
    },
    "egress": {
        "networkPolicy": {
            "extraIngress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}],
            "egress": {
                "enabled": True,
                "dns": {"to": [{"namespaceSelector": {}}]},
                "apiServer": {"ports": [8443], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
                "extra": [{"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}],
            },
        }
    },
    "names that YAML takes for numbers": {"fullnameOverride": "n2024", "nameOverride": "1e3"},
    "TLS": TLS,
    "shared volume from the start": {"persistence": {"accessModes": ["ReadWriteMany"]}},
    "cron job with all": {
        "kind": "CronJob",
        "startingDeadlineSeconds": 200,
        "successfulJobsHistoryLimit": 0,
        "failedJobsHistoryLimit": 1,
        "initContainers": [{"name": "first", "image": "busybox"}],
        "envFrom": [{"configMapRef": {"name": "a"}}],
        "networkPolicy": {"egress": {"enabled": True}},
    },
    "no volume": {"persistence": {"enabled": False}, "networkPolicy": {"enabled": False}},
}


def pod_and_container(objects: list[Object]) -> tuple[Object, Object]:
    (workload,) = (each for each in objects if each["kind"] in WORKLOAD_KINDS)
    pod = pod_template(workload)
    return pod, next(
        each for each in pod["spec"]["containers"] if each["name"] == "reactive-desched"
    )


def test_the_pod_has_what_the_values_give_it(helm: Helm) -> None:
    values = VARIANTS["all that a pod may have"]
    objects = helm.template(values, "x")
    pod, container = pod_and_container(objects)
    spec = pod["spec"]

    assert {"team": "a", "tier": "b"}.items() <= pod["metadata"]["labels"].items()
    assert {"c": "d"}.items() <= pod["metadata"]["annotations"].items()
    assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert container["image"] == f"reactive-desched@sha256:{'a' * 64}"
    assert [each["name"] for each in container["env"]][-2:] == ["A", "B"]
    assert container["envFrom"] == values["envFrom"]
    assert spec["initContainers"] == values["initContainers"]
    assert spec["containers"][1:] == values["extraContainers"]
    assert values["extraVolumes"][0] in spec["volumes"]
    assert values["extraVolumeMounts"][0] in container["volumeMounts"]
    for name in ("topologySpreadConstraints", "affinity", "tolerations", "priorityClassName"):
        assert spec[name] == values[name]
    for name in ("dnsPolicy", "dnsConfig", "hostAliases", "automountServiceAccountToken"):
        assert spec[name] == values[name]
    assert spec["securityContext"].keys() >= {"runAsNonRoot", "seccompProfile"}
    assert not {"runAsUser", "fsGroup"} & spec["securityContext"].keys()
    for each in objects:
        labels = each["metadata"]["labels"]
        assert (labels["team"], labels["app.kubernetes.io/part-of"]) == ("a", "platform")
        assert labels["app.kubernetes.io/name"] == RELEASE, "selectors cannot be changed"
        assert each["metadata"]["annotations"]["owner"] == "a"
        assert "mover" in each["metadata"]["name"]


def monitors(objects: list[Object]) -> dict[str, Object]:
    """Return the one endpoint of each monitor."""
    return {
        each["kind"]: (each["spec"].get("endpoints") or each["spec"]["podMetricsEndpoints"])[0]
        for each in objects
        if each["kind"] in ("ServiceMonitor", "PodMonitor")
    }


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_monitor_scrapes_as_the_server_serves(helm: Helm, kind: str) -> None:
    name = f"{kind[0].lower()}{kind[1:]}"

    def endpoint(values: Values, **options: object) -> tuple[Object, list[Object]]:
        asked = {"monitoring": {name: {"enabled": True, **options}}}
        objects = helm.template(values | asked, "x", "ours")
        return monitors(objects)[kind], objects

    plain, _ = endpoint({})
    assert plain == {"port": "http", "interval": "30s"}
    encrypted, _ = endpoint(TLS)
    assert encrypted == plain | {
        "scheme": "https",
        "tlsConfig": {
            "insecureSkipVerify": True,
            "serverName": "x-reactive-desched.ours.svc",
        },
    }
    ca = {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}}
    verified, _ = endpoint(TLS, tlsConfig=ca)
    assert verified["tlsConfig"] == ca | {"serverName": "x-reactive-desched.ours.svc"}
    asked, objects = endpoint(TOKENS)
    credentials = asked["authorization"]["credentials"]
    (secret,) = (each for each in objects if each["kind"] == "Secret")
    assert credentials == {"name": secret["metadata"]["name"], "key": "token"}
    other = {"credentials": {"name": "mine", "key": "t"}}
    given, objects = endpoint(TOKENS, authorization=other, namespace="monitoring")
    assert given["authorization"] == other
    assert not [each for each in objects if each["kind"] == "Secret"]
    (monitor,) = (each for each in objects if each["kind"] == kind)
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["ours"]}
    more, _ = endpoint(
        {},
        interval="5s",
        scrapeTimeout="4s",
        honorLabels=True,
        relabelings=[{"targetLabel": "cluster", "replacement": "prod"}],
        metricRelabelings=[{"action": "drop", "regex": "a", "sourceLabels": ["b"]}],
    )
    assert (more["interval"], more["scrapeTimeout"], more["honorLabels"]) == ("5s", "4s", True)
    assert more["relabelings"][0]["targetLabel"] == "cluster"
    assert more["metricRelabelings"][0]["action"] == "drop"


def test_scrapes_by_annotation_follow_tls(helm: Helm) -> None:
    schemes = [
        each["metadata"]["annotations"].get("prometheus.io/scheme")
        for values in ({}, TLS)
        for each in helm.template(values)
        if each["kind"] == "Service"
    ]
    assert schemes == [None, "https"]


def test_the_token_of_the_chart_may_read_metrics_and_nothing_else(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-token"
    monitored = {"monitoring": {"podMonitor": {"enabled": True}}}
    objects = [
        each
        for each in helm.template(TOKENS | monitored, name, name)
        if each["metadata"]["name"].endswith("-metrics")
    ]
    kubectl.run("create", "namespace", name)
    kubectl.run(
        *("apply", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    try:
        account = f"system:serviceaccount:{name}:{name}-reactive-desched-metrics"

        def may(*question: str) -> bool:
            try:
                return kubectl.run("auth", "can-i", *question, "--as", account).strip() == "yes"
            except KubectlError:
                return False

        assert may("get", "/metrics")
        assert not may("get", "/events")
        assert not may("list", "pods", "-A")
        secret = ("secret", f"{name}-reactive-desched-metrics", "-n", name)
        kubectl.run("wait", *secret, "--for=jsonpath={.data.token}", "--timeout=60s")
    finally:
        kubectl.run("delete", "namespace", name, "--wait=false")
        for kind in ("clusterrole", "clusterrolebinding"):
            kubectl.run("delete", kind, "-l", f"app.kubernetes.io/instance={name}")


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_the_real_api_server_takes_each_variant(
    helm: Helm, control_plane: ControlPlane, values: Values
) -> None:
    objects = [
        each
        | {
            "metadata": each["metadata"]
            | ({"namespace": "default"} if "namespace" in each["metadata"] else {})
        }
        for each in helm.template(values, "2024")
        if each["kind"] not in OPERATOR_KINDS
    ]
    control_plane.kubectl().run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )


@pytest.fixture(scope="session")
def operators_kinds(control_plane: ControlPlane) -> None:
    """Have the API server know the kinds of the Prometheus operator."""
    folder = operator_crds.find(os.environ) or do_without(["the Prometheus operator's definitions"])
    kubectl = control_plane.kubectl()
    kubectl.run("apply", "--server-side", "-f", str(folder))
    kubectl.run("wait", "--for=condition=Established", "--timeout=60s", "-f", str(folder))


@pytest.mark.usefixtures("operators_kinds")
def test_the_definitions_of_the_prometheus_operator_take_our_objects(
    helm: Helm, control_plane: ControlPlane
) -> None:
    objects = [
        each
        for values in (EVERYTHING, BY_PODS)
        for each in helm.template(values)
        if each["kind"] in OPERATOR_KINDS
    ]
    assert {each["kind"] for each in objects} == OPERATOR_KINDS

    def warned(objects: list[Object]) -> str:
        for each in objects:
            each["metadata"]["namespace"] = "default"
        return control_plane.kubectl().run_loud(
            *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )[1]

    assert warned(objects) == ""
    for each in objects:
        each["spec"]["noSuchField"] = 1
        with pytest.raises(KubectlError, match="noSuchField"):
            warned([each])


def test_the_rules_for_the_prometheus_operator_are_the_alerts(helm: Helm) -> None:
    objects = helm.template(EVERYTHING)
    (rule,) = (each for each in objects if each["kind"] == "PrometheusRule")
    alerts = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())

    assert rule["spec"] == alerts
    assert {each["kind"] for each in objects} >= OPERATOR_KINDS - {"PodMonitor"}


def test_alerts_link_to_the_documentation_where_its_address_is_given(helm: Helm) -> None:
    monitoring = {
        "documentationUrl": "https://docs.example.com/desched",
        "prometheusRule": {"enabled": True},
    }
    objects = helm.template({"monitoring": monitoring})
    (rule,) = (each for each in objects if each["kind"] == "PrometheusRule")

    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts
    for alert in alerts:
        page = f"runbooks/{alert['alert']}"
        assert alert["annotations"]["runbook"] == f"docs/{page}.md"
        assert (
            alert["annotations"]["runbook_url"] == f"https://docs.example.com/desched/{page}.html"
        )
    with pytest.raises(HelmError, match="documentationUrl"):
        helm.template({"monitoring": {"documentationUrl": "docs.example.com/"}})


def test_the_commands_of_the_page_on_helm_work(helm: Helm, control_plane: ControlPlane) -> None:
    page = (ROOT / "docs" / "howto" / "helm.md").read_text(encoding="utf-8")
    name = "helm-page"  # for the release and the namespace: others use the page's
    commands = [
        [name if word == RELEASE else word for word in shlex.split(command)]
        for command in re.findall(r"^\$ helm (.*)$", page.replace("\\\n", " "), re.MULTILINE)
    ]
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))

    assert [command[0] for command in commands] == ["install", "upgrade"]
    said = [helm.run(*command, *to[2:]) for command in commands]

    assert "DRY RUN" in said[0]
    assert "EVICTS pods" in said[1]
    (deployment,) = control_plane.kubectl().get("deployment", "-n", name)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example/reactive-desched:")
    helm.run("uninstall", name, *to)


def test_install_upgrade_and_rollback(helm: Helm, control_plane: ControlPlane) -> None:
    kubectl = control_plane.kubectl()
    name = "reactive-desched-chart"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))

    def may_evict() -> bool:
        account = f"system:serviceaccount:{name}:{name}"
        question = ("auth", "can-i", "create", "pods", "--subresource=eviction", "--as", account)
        try:
            return kubectl.run(*question).strip() == "yes"
        except KubectlError:
            return False

    values: Values = {"persistence": {"enabled": False}}
    said = helm.run(
        "install", name, str(CHART), *to, "--create-namespace", values=values | {"dryRun": True}
    )
    assert "DRY RUN" in said
    assert not may_evict()

    said = helm.run("upgrade", name, str(CHART), *to, values=values)
    assert "EVICTS pods" in said
    assert may_evict()

    helm.run("rollback", name, "1", *to)
    (deployment,) = kubectl.get("deployment", name, "-n", name)
    assert "--dry-run" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not may_evict()

    helm.run("uninstall", name, *to)
    assert kubectl.get("deployment", "-n", name) == []


def named(objects: list[Object], namespace: str) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of each object."""
    return {
        (
            each["kind"],
            "" if each["kind"].startswith("Cluster") else namespace,
            each["metadata"]["name"],
        )
        for each in objects
    }


UPGRADES = (
    "default",
    "two replicas",
    "TLS",
    "cron job",
    "dry run",
    "no volume",
    "egress",
    "default",
)
"""In this order each brings or leaves another kind of object."""


def test_after_each_upgrade_the_cluster_has_the_objects_of_its_values_and_no_other_but_claims(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-walk"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))
    # without a value Helm takes those of the revision before
    sets = {**VARIANTS, "default": {"suspend": False}, "two replicas": {"replicas": 2}}
    of_ours = ("-l", f"app.kubernetes.io/instance={name}")

    def there() -> set[tuple[str, str, str]]:
        kinds = (
            "deployment,cronjob,service,configmap,serviceaccount,role,rolebinding,networkpolicy"
            ",poddisruptionbudget,secret"
        )
        found = kubectl.get(kinds, "-n", name, *of_ours)
        return named([*found, *kubectl.get("clusterrole,clusterrolebinding", *of_ours)], name)

    helm.run("install", name, str(CHART), *to, "--create-namespace", values={"dryRun": True})
    for each in UPGRADES:
        helm.run("upgrade", name, str(CHART), *to, values=sets[each])
        rendered = named(helm.template(sets[each], name, name), name)
        assert there() == {it for it in rendered if it[0] != "PersistentVolumeClaim"}, each
    helm.run("uninstall", name, *to)
    assert there() == set()
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_from_one_replica_to_two_and_back_and_uninstalled_and_installed_again(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-replicas"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))

    def claims() -> dict[str, list[str]]:
        return {
            each["metadata"]["name"]: each["spec"]["accessModes"]
            for each in kubectl.get("persistentvolumeclaim", "-n", name)
        }

    said = helm.run("install", name, str(CHART), *to, "--create-namespace", values={})
    first = f"{name}-reactive-desched-journal"
    assert claims() == {first: ["ReadWriteOnce"]}
    assert f"pvc -n {name} {first}" in said
    both = {first: ["ReadWriteOnce"], f"{first}-shared": ["ReadWriteMany"]}

    for replicas in (2, 3, 1, 2):
        helm.run("upgrade", name, str(CHART), *to, values={"replicas": replicas})
        (deployment,) = kubectl.get("deployment", "-n", name)
        assert deployment["spec"]["replicas"] == replicas
        assert deployment["spec"]["strategy"]["type"] == (
            "RollingUpdate" if replicas > 1 else "Recreate"
        )
        assert claims() == both
    helm.run("upgrade", name, str(CHART), *to, values={"kind": "CronJob"})
    helm.run("uninstall", name, *to)
    swept = {f"{name}-reactive-desched-cronjob-journal": ["ReadWriteOnce"]}
    assert claims() == both | swept

    helm.run("install", name, str(CHART), *to, values={"replicas": 2})
    assert claims() == both | swept
    helm.run("upgrade", name, str(CHART), *to, values={"persistence": {"keep": False}})
    said = helm.run("get", "notes", name, *to)
    assert "Uninstalling DELETES the journal" in said
    helm.run("uninstall", name, *to)
    # that of two replicas was left before it could be told to go
    kubectl.run("wait", f"pvc/{first}", "-n", name, "--for=delete", "--timeout=60s")
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_what_a_claim_cannot_change_is_kept_or_named_before_anything_changes(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-claims"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))
    claim = f"{name}-reactive-desched-journal"

    def spec() -> Object:
        (found,) = kubectl.get("persistentvolumeclaim", claim, "-n", name)
        return {key: found["spec"][key] for key in ("accessModes", "storageClassName", "resources")}

    chosen = {"accessModes": ["ReadWriteMany"], "storageClassName": "fast", "size": "5Gi"}
    helm.run("install", name, str(CHART), *to, "--create-namespace", values={"persistence": chosen})
    first = spec()
    # what the values leave out, the claim says
    for values in ({"dryRun": True}, {"replicas": 2, "persistence": chosen}, {"kind": "Job"}):
        helm.run(
            "upgrade", name, str(CHART), *to, values={"persistence": {"size": "5Gi"}, **values}
        )
        assert spec() == first
    helm.run("uninstall", name, *to)
    helm.run("install", name, str(CHART), *to, values={"persistence": {"size": "5Gi"}})
    assert spec() == first

    other = {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "size": "1Gi"}
    with pytest.raises(HelmError) as error:
        helm.run("upgrade", name, str(CHART), *to, values={"persistence": other})
    assert [each.partition(":")[0] for each in complaints(error.value)] == [
        f"persistence.{key}" for key in other
    ]
    for each in complaints(error.value):
        assert each.endswith(f"kubectl delete pvc -n {name} {claim}")
    elsewhere = {"persistence": {**other, "existingClaim": "mine"}}
    helm.run("upgrade", name, str(CHART), *to, values=elsewhere)
    helm.run("uninstall", name, *to)
    assert spec() == first
    kubectl.run("delete", "namespace", name, "--wait=false")


NAMED_AS_THEIRS: Values = {"fullnameOverride": "descheduler"}
OTHER_CHART = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: descheduler, namespace: {{ .Release.Namespace }}}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: descheduler}}
  template:
    metadata: {labels: {app.kubernetes.io/name: descheduler}}
    spec: {containers: [{name: descheduler, image: "registry.k8s.io/descheduler/descheduler"}]}
"""
"""The Deployment of the SIG descheduler's chart, as far as it matters here."""


def test_a_release_of_another_chart_goes_on_as_ours_unless_its_deployment_has_our_name(
    helm: Helm, control_plane: ControlPlane, tmp_path: Path, golden: Golden
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-of-others"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))
    theirs = tmp_path / "descheduler"
    (theirs / "templates").mkdir(parents=True)
    (theirs / "Chart.yaml").write_text("{apiVersion: v2, name: descheduler, version: 0.36.0}")
    (theirs / "templates" / "all.yaml").write_text(OTHER_CHART)
    helm.run("install", "descheduler", str(theirs), *to, "--create-namespace")

    with pytest.raises(HelmError) as error:
        helm.run("upgrade", "descheduler", str(CHART), *to, values=NAMED_AS_THEIRS)

    (complaint,) = complaints(error.value)
    assert complaint == golden()
    (found,) = kubectl.get("deployment", "-n", name)
    assert found["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": "descheduler"}
    assert not kubectl.get("networkpolicy", "-n", name)

    helm.run("upgrade", "descheduler", str(CHART), *to)
    (found,) = kubectl.get("deployment", "-n", name)
    assert found["metadata"]["name"] == "descheduler-reactive-desched"
    helm.run("rollback", "descheduler", "1", *to)
    (found,) = kubectl.get("deployment", "-n", name)
    assert found["metadata"]["name"] == "descheduler"
    kubectl.run(*complaint.partition(": kubectl ")[2].split())
    helm.run("upgrade", "descheduler", str(CHART), *to, values=NAMED_AS_THEIRS)
    helm.run("uninstall", "descheduler", *to)
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_an_upgrade_takes_back_what_kubectl_changed_by_the_flag_that_the_page_names(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-patched"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))
    config = ("configmap", f"{name}-reactive-desched", "-n", name)

    def paused() -> str | None:
        (found,) = kubectl.get(*config)
        text: str | None = found["data"].get("paused")
        return text

    helm.run("install", name, str(CHART), *to, "--create-namespace", values={})
    # as docs/howto/stop-it.md has it, there and back
    kubectl.run("patch", *config, "--type", "merge", "-p", '{"data":{"paused":"me"}}')
    helm.run("upgrade", name, str(CHART), *to, values={"dryRun": True})
    assert paused() == "me"
    with pytest.raises(HelmError, match="conflict"):
        helm.run("upgrade", name, str(CHART), *to, values={"paused": "you"})
    remove = '[{"op":"remove","path":"/data/paused"}]'
    kubectl.run("patch", *config, "--type", "json", "-p", remove)
    helm.run("upgrade", name, str(CHART), *to, values={"paused": "you"})
    assert paused() == "you"
    # as docs/howto/reload.md has it
    kubectl.run("patch", *config, "--type", "merge", "-p", '{"data":{"policy.yaml":"{}"}}')
    page = (ROOT / "docs" / "howto" / "helm.md").read_text(encoding="utf-8")
    assert "--force-conflicts" in page
    helm.run("upgrade", name, str(CHART), *to, "--force-conflicts", values={"paused": "us"})
    assert paused() == "us"
    helm.run("uninstall", name, *to)
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_a_release_takes_other_names_and_goes_back(helm: Helm, control_plane: ControlPlane) -> None:
    kubectl = control_plane.kubectl()
    name = "chart-renamed"
    to = ("-n", name, "--kubeconfig", str(control_plane.admin_kubeconfig))
    helm.run("install", name, str(CHART), *to, "--create-namespace", values={})

    for values, called in (
        ({"nameOverride": "renamed"}, "chart-renamed"),  # the release's name has it already
        ({"nameOverride": "mover"}, "chart-renamed-mover"),
        ({"fullnameOverride": "other", "nameOverride": "mover"}, "other"),
        ({"fullnameOverride": "other"}, "other"),
        (
            {"replicas": 1},
            "chart-renamed-reactive-desched",
        ),  # without values Helm keeps those before
    ):
        helm.run("upgrade", name, str(CHART), *to, values=values)
        (deployment,) = kubectl.get("deployment", "-n", name)
        assert deployment["metadata"]["name"] == called
    helm.run("uninstall", name, *to)
    kubectl.run("delete", "namespace", name, "--wait=false")


def test_releases_of_one_name_in_two_namespaces_stand_side_by_side(
    helm: Helm, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl()
    where = ("--kubeconfig", str(control_plane.admin_kubeconfig))
    values: Values = {"persistence": {"enabled": False}, **TLS}

    for space in ("side-one", "side-two"):
        helm.run(
            *("install", "desched", str(CHART), "-n", space, "--create-namespace", *where),
            values=values,
        )
    helm.run("uninstall", "desched", "-n", "side-one", *where)

    account = "system:serviceaccount:side-two:desched-reactive-desched"
    question = ("auth", "can-i", "create", "pods", "--subresource=eviction", "--as", account)
    assert kubectl.run(*question).strip() == "yes"
    helm.run("uninstall", "desched", "-n", "side-two", *where)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"image": {"tag": "9"}},
        {"image": {"digest": f"sha256:{'a' * 64}"}},
        {"image": {"repository": "registry.example/descheduler"}, "replicas": 3},
    ],
    ids=["default", "tag", "digest", "registry, three replicas"],
)
def test_what_is_printed_says_whether_a_registry_has_the_image_and_where_the_journal_is(
    helm: Helm, control_plane: ControlPlane, golden: Golden, values: Values
) -> None:
    said = helm.run(
        *("install", "notes", str(CHART), "-n", "chart", "--dry-run=server"),
        *("--kubeconfig", str(control_plane.admin_kubeconfig)),
        values=values,
    )

    assert said.partition("NOTES:")[2].strip() == golden(version=__version__)
