"""An anonymized recording gives the same answers under other names, and has none of the old."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reactive_desched.api.reason_codes import REASON_CODES
from reactive_desched.errors import RecordingError
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.migration import job_state
from reactive_desched.migration.state_machine import COMPLETE, TRANSITIONS
from reactive_desched.model import labels as labels_module
from reactive_desched.model.eviction_options import DeleteOptions
from reactive_desched.model.health import HealthAnswer, Symptom
from reactive_desched.model.job_tries import JobTries
from reactive_desched.model.labels import LabelSelector, Requirement, parse_selector
from reactive_desched.model.migration_jobs import MigrationJob, PodReference
from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from reactive_desched.model.node_marks import find_mark, is_state_label, is_system_label
from reactive_desched.model.node_scores import normalized_image
from reactive_desched.model.objects import (
    Annotations,
    Deployment,
    Job,
    Namespace,
    Node,
    NodeImage,
    Pod,
    PodDisruptionBudget,
    PodSpec,
)
from reactive_desched.model.outcomes import EvictionResponse, OutcomeReason, PdbRefused
from reactive_desched.model.resources import is_extended
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plan import inputs
from reactive_desched.plan.command import build_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import PlanReport
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.recording import anonymize, anonymize_policy, items, pseudonyms
from reactive_desched.recording.anonymize import FIELDS, Anonymizer, anonymized
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Instant,
    Item,
    NodeSeen,
    ObjectFound,
    UsageMeasured,
)
from reactive_desched.recording.pseudonyms import Pseudonyms
from reactive_desched.recording.well_known import KEPT_KEYS, KEPT_WORDS
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.kind import WireStruct
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.conformance import FOLDER, RecordedCase, case_parameters, write_case
from tests.support.previewed import draw_cluster, draw_policy, write_cluster
from tests.support.sim_world import SimulatedCluster

AT = Instant(0.0, 0.0)
_MADE_UP = "strategy-"
"""How the profiles of a v1alpha1 policy are called, which has none."""

NOW = "2026-01-01T00:10:00Z"


def recorded(snapshot: Snapshot, policy: str) -> list[Item]:
    """Return a cluster and a policy as a recording has them."""
    found = [
        ObjectFound(AT, resource, obj)
        for resource, objects in snapshot.objects.items()
        for obj in objects
    ]
    measured = [UsageMeasured(AT, sample) for sample in snapshot.samples]
    return [*found, *measured, ConfigurationInForce(AT, policy)]


def as_snapshot(read: Sequence[Item], like: Snapshot) -> Snapshot:
    """Return the cluster of a recording."""
    objects: dict[str, list[Any]] = {resource: [] for resource in like.objects}
    for item in read:
        if isinstance(item, ObjectFound):
            objects[item.resource].append(item.obj)
    samples = tuple(each.sample for each in read if isinstance(each, UsageMeasured))
    return structs.replace(like, objects=objects, samples=samples)


class Planned:
    """What `plan` says of a cluster, and what it says of the same one under other names."""

    def __init__(
        self, policy: str, files: Sequence[str], folder: Path, mode: PlanMode, now: str, passes: int
    ) -> None:
        (folder / "policy.yaml").write_text(policy)
        options = PlanOptions(
            policy=str(folder / "policy.yaml"),
            files=tuple(files),
            mode=mode,
            now=now,
            passes=passes,
        )
        with pytest.MonkeyPatch.context() as patch:
            read = inputs._load_snapshot
            seen: list[inputs.LoadedSnapshot] = []

            def remember(*given: Any) -> inputs.LoadedSnapshot:
                seen.append(read(*given))
                return seen[-1]

            patch.setattr(inputs, "_load_snapshot", remember)
            self.report = build_report(options, Progress())
            self.items = recorded(seen[0].snapshot, policy)
            anonymizer = Anonymizer(self.items, Random(7))
            self.names: Pseudonyms = anonymizer.pseudonyms
            self.renamed = list(anonymizer.rename(self.items))
            other = as_snapshot(self.renamed, seen[0].snapshot)
            (folder / "policy.yaml").write_text(cast("Any", self.renamed[-1]).policy)
            patch.setattr(inputs, "_load_snapshot", lambda *_: inputs.LoadedSnapshot(other))
            self.renamed_report = build_report(options, Progress())


def decisions(report: PlanReport, name: Any) -> list[tuple[Any, ...]]:
    """Return the decisions of a report, with what `name` makes of the names in them."""
    return [
        (
            each.action,
            name(each.pod.namespace),
            name(each.pod.name),
            name(each.node),
            each.profile if each.profile.startswith(_MADE_UP) else name(each.profile),
            each.plugin,
            each.gate,
            each.reason,
            each.in_seconds,
            each.retry_in_seconds,
            each.replacement_node and name(each.replacement_node),
        )
        for each in report.decisions
    ]


def assert_same_answers(planned: Planned) -> None:
    """Check that both reports say the same once the names are replaced in the first."""
    before = decisions(planned.report, planned.names.text)
    assert before == decisions(planned.renamed_report, str)


def names_of(read: Iterable[Item]) -> Iterator[str]:
    """Yield the names, label values and keys of a cluster that nobody but its owner gave."""
    for item in read:
        match item:
            case ObjectFound(obj=obj):
                yield from (getattr(obj, "namespace", ""), getattr(obj, "name", ""), obj.uid)
                for key, value in getattr(obj, "labels", {}).items():
                    yield from (key, value)
            case UsageMeasured(sample=NodeUsage(node=name)):
                yield name


def names_left(planned: Planned) -> list[str]:
    """Search what was anonymized for each name of the original."""
    text = msgspec.json.encode(planned.renamed).decode()
    fields = {name for kind in FIELDS for name in kind.__struct_fields__}
    kept = {part for each in KEPT_WORDS | KEPT_KEYS for part in re.split(r"[-./]", each)}
    searched = set(names_of(planned.items)) - KEPT_WORDS - KEPT_KEYS - fields - kept - {"v1"}
    return [
        name
        for name in searched
        if name in text  # an expression per name takes long to say so
        and not re.fullmatch(r"[0-9]{0,4}|.", name)
        and re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text)
    ]


def renamed(*objects: Any, policy: str = "", seed: int = 1) -> tuple[Pseudonyms, list[Any]]:
    """Return the pseudonyms of a recording of these objects, and the objects under them."""
    found: list[Item] = [ObjectFound(AT, "any", each) for each in objects]
    found += [ConfigurationInForce(AT, policy)] if policy else []
    anonymizer = Anonymizer(found, Random(seed))
    return anonymizer.pseudonyms, [getattr(each, "obj", each) for each in anonymizer.rename(found)]


def test_pods_keep_the_beginning_of_their_workload_and_the_ordinals_of_a_stateful_set() -> None:
    names, (_, web, db) = renamed(
        Deployment("shop", "checkout", "u1"),
        Pod("shop", "checkout-7d4b9c6f5d-x2x1z", "u2"),
        Pod("shop", "mysql-10", "u3"),
    )

    assert web.name.startswith(f"{names.text('checkout')}-")
    assert web.name.count("-") == 2
    assert db.name == f"{names.text('mysql')}-10"


def test_the_address_in_a_node_name_is_replaced() -> None:
    _, (renamed_node,) = renamed(Node("ip-10-0-12-34.eu-west-1.compute.internal"))

    assert not re.search(r"[0-9]", renamed_node.name)


def test_a_node_has_the_images_of_a_pod_under_their_other_names() -> None:
    names = "acme/app:v1", "acme/app:latest", "acme:5000/app:latest", "acme@sha256:00ff"
    spec = PodSpec(
        images=("acme/app", "acme/app:v1"),
        init_images=("acme:5000/app",),
        volume_images=("acme@sha256:00ff",),
    )
    there = Node("n1", images=tuple(NodeImage((name,), 9) for name in names))
    _, (node, user) = renamed(there, Pod("default", "web", "u", spec=spec))

    wanted = (*user.spec.images, *user.spec.init_images, *user.spec.volume_images)
    has = {name for image in node.images for name in image.names}
    assert set(map(normalized_image, wanted)) == has
    assert len(has) == len(names)
    assert not any("acme" in name or "app" in name for name in has)


def test_the_conditions_of_a_node_are_named_as_in_the_policy_and_keep_their_times() -> None:
    conditions = (("KernelDeadlock", "True"), ("acme.com/Fan", "False"))
    node_seen = NodeSeen(
        AT, "n1", 1.0, 2.0, 3.0, conditions=(("KernelDeadlock", ((4.0, "True"),)),)
    )
    found = Node("n1", conditions=conditions, conditions_changed_s=(5, None))
    items = [ConfigurationInForce(AT, OF_CONDITIONS), ObjectFound(AT, "any", found), node_seen]
    in_force, of_node, times = Anonymizer(items, Random(1)).rename(items)

    assert isinstance(in_force, ConfigurationInForce)
    assert isinstance(of_node, ObjectFound)
    assert isinstance(times, NodeSeen)
    assert isinstance(of_node.obj, Node)
    (deadlock, _), (fan, _) = of_node.obj.conditions
    configuration = load_sources([SourceText(in_force.policy, "renamed")], plugin_registry())
    (plugin,) = configuration.policy.profiles[0].plugins
    assert [each.type for each in plugin.args.conditions] == [deadlock, fan]
    assert not {deadlock, fan} & {"KernelDeadlock", "acme.com/Fan"}
    assert of_node.obj.conditions == ((deadlock, "True"), (fan, "False"))
    assert of_node.obj.conditions_changed_s == (5, None)
    assert times.conditions == ((deadlock, ((4.0, "True"),)),)


def test_what_is_equal_stays_equal_wherever_it_stands() -> None:
    named = {"kubernetes.io/metadata.name": "shop", "team": "checkout"}
    selector = LabelSelector(named, (Requirement("team", "NotIn", ("checkout", "billing")),))
    _, (namespace, budget) = renamed(
        Namespace("shop", labels=named), PodDisruptionBudget("shop", "budget", selector=selector)
    )

    assert namespace.labels["kubernetes.io/metadata.name"] == namespace.name
    assert budget.namespace == namespace.name
    assert budget.selector.match_labels == namespace.labels
    assert not budget.selector.matches(namespace.labels)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8, unique=True))
def test_integers_compare_as_before(numbers: list[int]) -> None:
    names, _ = renamed(*(Node(f"n{n}", labels={"size": str(n)}) for n in numbers))

    values = [names.value(str(number)) for number in numbers]

    for one, its in zip(numbers, values, strict=True):
        for other, theirs in zip(numbers, values, strict=True):
            above = Requirement("size", "Gt", (str(other),))
            same = Requirement("size", "Gt", (theirs.removesuffix("!"),))
            assert same.matches({"size": its.removesuffix("!")}) == above.matches(
                {"size": str(one)}
            )


LABEL = st.from_regex(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?", fullmatch=True)


@given(st.lists(LABEL, min_size=1, max_size=6, unique=True))
def test_labels_that_the_api_server_takes_stay_valid_and_differ(values: list[str]) -> None:
    names, _ = renamed(Node("n", labels={f"k{i}": each for i, each in enumerate(values)}))

    given_names = [names.value(each) for each in values]

    assert [labels_module.label_value_error(each) for each in given_names] == [None] * len(values)
    assert len(set(given_names)) == len(values)


NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,12}[a-z])?", fullmatch=True)


@given(st.sets(NAME, min_size=2, max_size=12))
def test_names_sort_as_before(found: set[str]) -> None:
    ordered = sorted(found - KEPT_WORDS)
    names, _ = renamed(*map(Namespace, ordered))

    assert sorted(map(names.text, ordered)) == [names.text(each) for each in ordered]


@pytest.mark.parametrize(
    "key",
    [
        "acme.com/agent-not-ready",
        "readiness.k8s.io/acme",
        "startup-taint.cluster-autoscaler.kubernetes.io/acme",
        "ToBeDeletedByClusterAutoscaler",
        "node.cilium.io/acme",
        "acme.com/gpu-driver-upgrade",
        "acme.com/dedicated",
        "node-role.kubernetes.io/acme",
    ],
)
def test_a_taint_belongs_to_the_same_group_under_its_other_name(key: str) -> None:
    names, (tainted,) = renamed(Node("n", taints=(Taint(key, "NoSchedule", "acme"),)))
    (taint,) = tainted.taints

    before, after = find_mark(key), find_mark(taint.key)

    assert before == after
    assert "acme" not in f"{taint.key} {taint.value}"
    assert labels_module.label_key_error(taint.key) is None
    assert names.key(key) == taint.key


@pytest.mark.parametrize(
    "key",
    [
        *("nvidia.com/gpu.product", "topology.acme.com/zone", "team"),
        *("kubevirt.io/schedulable", "acme.com/agent-state", "nvidia.com/gpu.deploy.acme"),
    ],
)
def test_labels_that_programs_set_are_known_as_such_under_their_other_names(key: str) -> None:
    names, _ = renamed(Node("n", labels={key: "acme"}))

    assert is_system_label(names.key(key)) == is_system_label(key)
    assert is_state_label(names.key(key)) == is_state_label(key)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "acme.com/fpga", "cpu", "hugepages-2Mi"])
def test_resources_are_extended_ones_as_before(resource: str) -> None:
    names, (has,) = renamed(Node("n", allocatable={resource: 3}))

    assert has.allocatable == {names.key(resource): 3}
    assert is_extended(names.key(resource)) == is_extended(resource)
    assert (resource == names.key(resource)) == (resource in ("cpu", "hugepages-2Mi"))


def test_a_label_value_that_no_server_takes_stays_one() -> None:
    term = NodeSelectorTerm((Requirement("team", "In", ("not valid!",)),))
    affinity = NodeAffinity(NodeSelector((term,)))
    _, (bad,) = renamed(Pod("shop", "web", "u", spec=PodSpec(node_affinity=affinity)))

    assert not bad.spec.node_affinity.required.node_selector_terms[0].usable


def test_messages_are_left_out_and_times_of_annotations_stay() -> None:
    rules = Annotations(do_not_evict="2026-12-01T00:00:00Z", evict="because acme says so")
    items_before = [
        ObjectFound(AT, "pods", Pod("shop", "web", "u", annotations=rules)),
        ObjectFound(AT, "jobs", Job("j", tries=JobTries(makes_no_pod="acme.com/kueue has it"))),
        items.PauseSet(AT, "manual", "acme migrates"),
        items.EvictionAnswered(AT, "shop", "web", "u", PdbRefused("acme-budget says no")),
        items.OrderGiven(AT, "pause", "jane@acme.com", {"reason": "acme", "forSeconds": "20.0"}),
    ]

    anonymous: list[Any] = list(anonymized(lambda: items_before, Random(1)))
    found, job, pause, answered, order = anonymous

    assert found.obj.annotations.do_not_evict == "2026-12-01T00:00:00Z"
    assert pause.reason == answered.response.message == order.who == "left out"
    assert not job.obj.tries.makes_pods
    assert order.arguments == {"reason": "left out", "forSeconds": "20.0"}
    assert "acme" not in repr([found, job, pause, answered, order])


@pytest.mark.parametrize("named", ["acme/StatefulSet/web", "0b5f2e9a-1111-4222-8333-444455556666"])
def test_an_order_names_the_same_objects_by_other_names(named: str) -> None:
    uid = "0b5f2e9a-1111-4222-8333-444455556666"
    pod = ObjectFound(AT, "pods", Pod("acme", "web", uid))
    policy = json.dumps({"profiles": [{"plugins": {"deschedule": {"enabled": [_FAILED]}}}]})
    given = {"owner": named, "node": "acme-1", "plugin": _FAILED, "forSeconds": "not acme"}
    order = items.OrderGiven(AT, "evaluate", "ann", given)
    node = ObjectFound(AT, "nodes", Node("acme-1"))
    before: list[Item] = [ConfigurationInForce(AT, policy), pod, node, order]

    after: list[Any] = list(anonymized(lambda: before, Random(1)))

    web, host, renamed = after[1].obj, after[2].obj, after[3].arguments
    assert renamed == {
        "owner": web.uid if named == uid else f"{web.namespace}/StatefulSet/{web.name}",
        "node": host.name,
        "plugin": _FAILED,
        "forSeconds": "",
    }


_FAILED = "RemoveFailedPods"


def test_answers_to_health_checks_hold_the_same_namespaces_by_other_names() -> None:
    labels = {"namespace": "acme-shop", "acme_team": "acme"}
    found = HealthAnswer("acme-errors", (Symptom(labels, "7.5"),))
    down = HealthAnswer("acme-errors", problem="http://prom.acme.com: refused")
    pod = ObjectFound(AT, "pods", Pod("acme-shop", "web", "u"))
    answers = [items.HealthAnswered(AT, each.check, each) for each in (found, down)]

    anonymous: list[Any] = list(anonymized(lambda: [pod, *answers], Random(1)))
    found_pod, suffers, unknown = anonymous

    (symptom,) = suffers.answer.symptoms
    assert symptom.labels["namespace"] == found_pod.obj.namespace
    assert symptom.value == "7.5"
    assert suffers.name == suffers.answer.check == unknown.name
    assert unknown.answer.problem == "left out"
    assert suffers.answer.problem == ""
    assert "acme" not in repr(anonymous)


def test_what_holds_plugins_names_them_as_the_policy_does() -> None:
    policy = "profiles: [{plugins: {deschedule: {enabled: [NodeTaints, AcmePlugin]}}}]"
    in_force = items.ConfigurationInForce(AT, f"{VERSION}kind: DeschedulerPolicy\n{policy}", "")
    symptoms = [
        Symptom({"plugin": "AcmePlugin"}),
        Symptom({"acme_team": "NodeTaints", "plugin": "acme-cni"}),
    ]
    said = HealthAnswer("e", tuple(symptoms))

    _, found = anonymized(lambda: [in_force, items.HealthAnswered(AT, "e", said)], Random(1))

    assert isinstance(found, items.HealthAnswered)
    of_ours, of_others = found.answer.symptoms
    assert of_ours.labels == {"plugin": "AcmePlugin"}
    assert "NodeTaints" in of_others.labels.values()
    assert "acme" not in repr(of_others)


HEALTH = """\
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
brakes:
  health:
  - name: acme-errors
    prometheus:
      url: http://prom.acme.com:9090
      tokenFile: /run/acme/token
      query: errors{job="acme"} > 5
      knownBy: up{job="acme"}
    holds: namespace
    for: 2m
  - name: acme-pages
    alertmanager:
      url: http://alerts.acme.com
      alerts: [team="acme"]
      knownBy: [alertname="acme"]
    holds: profile
    label: acme_profile
"""


def test_health_checks_hold_as_they_did_and_say_not_what_they_ask() -> None:
    item = items.ConfigurationInForce(AT, "", HEALTH)

    found: list[Any] = list(anonymized(lambda: [item], Random(1)))
    text = found[0].settings

    assert "acme" not in text
    document = json.loads(text.removeprefix("---"))
    errors, pages = BrakeSettings.model_validate(document["brakes"]).health
    assert (errors.holds, errors.for_s, errors.held_by_label) == ("namespace", 120.0, "namespace")
    assert pages.holds == "profile"
    assert pages.held_by_label not in ("profile", "acme_profile")


VERSION = "apiVersion: descheduler/v1alpha2\n"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: acme.com/pool=blue
profiles:
- name: acme
  pluginConfig:
  - name: DefaultEvictor
    args:
      priorityThreshold: {name: acme-high}
      labelSelector: {matchLabels: {team: checkout}}
  - name: RemovePodsViolatingNodeTaints
    args:
      excludedTaints: [acme.com/dedicated=blue, node.kubernetes.io/unschedulable]
      namespaces: {include: [shop]}
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20, acme.com/fpga: 10}
      targetThresholds: {cpu: 50, acme.com/fpga: 50}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
    balance: {enabled: [LowNodeUtilization]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 2s}
guards: {replacingOwners: [CloneSet.acme.com]}
sinks: {stdout: {}}
journal: {directory: /var/lib/acme}
"""


OF_CONDITIONS = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: acme
  pluginConfig:
  - name: RemovePodsViolatingNodeConditions
    args: {conditions: [{type: KernelDeadlock}, {type: acme.com/Fan}]}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeConditions]}}
"""


def test_a_policy_selects_what_it_selected_and_loads() -> None:
    names, (in_force,) = renamed(policy=POLICY)

    configuration = load_sources([SourceText(in_force.policy, "renamed")], plugin_registry())

    (profile,) = configuration.policy.profiles
    arguments = {each.name: each.args for each in profile.plugins}
    taints = arguments["RemovePodsViolatingNodeTaints"]
    assert taints.namespaces.include == (names.text("shop"),)
    assert f"{names.key('acme.com/dedicated')}={names.value('blue')}" in taints.excluded_taints
    assert "node.kubernetes.io/unschedulable" in taints.excluded_taints
    assert names.key("acme.com/fpga") in arguments["LowNodeUtilization"].thresholds
    assert str(configuration.policy.node_selector) == str(
        parse_selector(f"{names.key('acme.com/pool')}={names.value('blue')}")
    )
    assert not re.search("acme|shop|checkout|blue|stdout", in_force.policy)


OF_NODES = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: acme
  pluginConfig:
  - name: ConsolidateNodes
    args:
      minNodes: [{label: topology.kubernetes.io/zone}, {label: acme.com/rack}]
      priceLabel: node.kubernetes.io/instance-type
      prices: {m5.acme: 0.096}
  - name: KeepNodesFree
    args: {resource: nvidia.com/gpu, amount: 8}
  - name: FragmentationAware
    args: {resources: [cpu, acme.com/fpga]}
  plugins: {balance: {enabled: [ConsolidateNodes, KeepNodesFree, FragmentationAware]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
scheduler:
  config:
  - kind: KubeSchedulerConfiguration
    leaderElection: {resourceName: acme-lock}
    extenders: [{urlPrefix: "http://extender.acme.com", filterVerb: acme}]
    profiles:
    - schedulerName: acme-scheduler
      plugins: {score: {enabled: [{name: AcmeScore, weight: 2}]}}
      pluginConfig:
      - {name: AcmeScore, args: {acmeKey: blue}}
      - name: NodeResourcesFit
        args:
          ignoredResources: [acme.com/fpga]
          ignoredResourceGroups: [nvidia.com, acme.com]
          scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: acme.com/fpga}]}
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
          - maxSkew: 1
            topologyKey: topology.kubernetes.io/zone
            whenUnsatisfiable: ScheduleAnyway
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions: [{key: acme.com/pool, operator: In, values: [blue]}]
"""


def test_arguments_name_labels_and_resources_of_nodes_as_those_are_named() -> None:
    names, (in_force,) = renamed(policy=OF_NODES)

    configuration = load_sources([SourceText(in_force.policy, "renamed")], plugin_registry())

    (profile,) = configuration.policy.profiles
    arguments = {each.name: each.args for each in profile.plugins}
    consolidating = arguments["ConsolidateNodes"]
    assert [each.label for each in consolidating.min_nodes] == [
        "topology.kubernetes.io/zone",
        names.key("acme.com/rack"),
    ]
    assert consolidating.price_label == "node.kubernetes.io/instance-type"
    assert consolidating.prices == {names.value("m5.acme"): 0.096}
    assert arguments["KeepNodesFree"].resource == names.key("nvidia.com/gpu")
    assert arguments["FragmentationAware"].resources == ("cpu", names.key("acme.com/fpga"))


def test_the_configuration_of_a_scheduler_decides_as_before_and_names_no_one() -> None:
    names, (in_force,) = renamed(policy=OF_NODES)

    configuration = load_sources([SourceText(in_force.policy, "renamed")], plugin_registry())

    profiles = configuration.settings.scheduler.profiles().by_name
    profile = profiles[names.text("acme-scheduler")]
    assert profile.ignored_resources == {names.key("acme.com/fpga")}
    assert profile.ignored_groups == {"nvidia.com", names.text("acme.com")}
    assert profile.not_known == ("extenders",)
    assert profile.unknown_scores == ("extenders", f"plugins {names.text('AcmeScore')}")
    assert profile.added_affinity is not None
    [required] = profile.added_affinity.node_selector_terms
    [expression] = required.match_expressions
    assert (expression.key, expression.values) == (
        names.key("acme.com/pool"),
        (names.value("blue"),),
    )
    assert not re.search("acme|blue", in_force.policy, re.IGNORECASE)


SETTINGS = """\
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
"""
KEYS_IN_ARGUMENTS = {"label", "priceLabel", "resource", "resources", "key"}
"""The arguments of plugins that name a label of nodes or pods, or a resource."""


SELECTORS = {"nodeSelector", "namespaceSelector"}
"""The fields of policies and settings that are selectors, written as one text."""

OTHER_TEXTS = {
    *("apiVersion", "disabled", "driver", "enabled", "exclude", "excludeOwnerKinds"),
    *("excludedTaints", "include", "includedTaints", "kind", "name", "namespace"),
    *("nodeAffinityType", "propagationPolicy", "query", "reason", "reasons", "resourceVersion"),
    *("schedulerNames", "status", "type", "uid", "url", "values"),
    # numbers, durations and truth
    *("defaultJobTTL", "detectorCacheTimeout", "dryRun", "duration", "evictQPS", "for"),
    *("interval", "lapse", "maxMigrating", "maxMigratingPerWorkload"),
    *("maxUnavailablePerWorkload", "minPodAge", "timeout", "wait"),
}
"""The other arguments of any text: names, taints, and what no object has."""


def is_text(schema: Any) -> bool:
    if not isinstance(schema, dict) or {"enum", "const"} & schema.keys():
        return False
    kinds = schema.get("type", ())
    parts = (schema.get("items"), *schema.get("anyOf", ()), *schema.get("oneOf", ()))
    return "string" in ([kinds] if isinstance(kinds, str) else kinds) or any(map(is_text, parts))


def fields_of_text(schema: Any) -> Iterator[str]:
    """Yield the fields of a JSON schema that hold any text, or a list of texts."""
    parts = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and isinstance(fields := schema.get("properties"), dict):
        yield from (name for name, each in fields.items() if is_text(each))
    for each in parts:
        if isinstance(each, dict | list):
            yield from fields_of_text(each)


def test_every_argument_that_is_a_key_of_a_label_or_a_resource_is_replaced_as_one() -> None:
    """A new argument of text stands in one list or the other, or this fails."""
    schema = json.loads((files("reactive_desched.policy") / "schemas/v1alpha2.json").read_text())
    found = set(fields_of_text(schema))

    assert found - OTHER_TEXTS - SELECTORS == KEYS_IN_ARGUMENTS
    assert anonymize_policy._KEY_FIELDS >= KEYS_IN_ARGUMENTS
    assert anonymize_policy._SELECTOR_FIELDS >= SELECTORS


def test_every_selector_in_one_text_is_replaced_as_one() -> None:
    for name in ("v1alpha2", "settings"):
        path = files("reactive_desched.policy") / f"schemas/{name}.json"
        found = set(fields_of_text(json.loads(path.read_text())))

        assert {each for each in found if "selector" in each.lower()} <= SELECTORS
    selector = "tier in (gold,acme),kubernetes.io/metadata.name!=default"
    budget = f'{{name: own, evictions: 1, per: 1h, namespaceSelector: "{selector}"}}'
    names, (in_force,) = renamed(
        policy=f"{OF_CONDITIONS}{SETTINGS}budgets: {{named: [{budget}]}}\n"
    )

    configuration = load_sources([SourceText(in_force.policy, "renamed")], plugin_registry())

    [named] = configuration.settings.budgets.named
    values = ",".join(sorted(map(names.value, ("gold", "acme"))))
    tier = names.key("tier")
    assert str(named.namespace_selector) == str(
        parse_selector(f"{tier} in ({values}),kubernetes.io/metadata.name!=default")
    )


def test_keys_that_a_map_of_the_settings_may_have_stay() -> None:
    limiters = "objectLimiters: {workload: {duration: 10s}, namespace: {duration: 20s}}"
    by_plugin = "debounce: {perPlugin: {AcmePlugin: {quiet: 3s}}}"
    text = POLICY.replace("debounce: {quiet: 2s}", f"{by_plugin}\nmigration: {{{limiters}}}")
    _, (in_force,) = renamed(policy=text)

    document = json.loads(in_force.policy.split("---")[-1])
    assert set(document["migration"]["objectLimiters"]) == {"workload", "namespace"}
    assert set(document["debounce"]["perPlugin"]) == {"AcmePlugin"}


def recorded_structs(kind: Any, seen: set[Any]) -> set[Any]:
    """Collect the structs that one can hold."""
    if kind in seen or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        for part in get_args(kind):
            recorded_structs(part, seen)
        return seen
    seen.add(kind)
    for field in structs.fields(kind):
        recorded_structs(field.type, seen)
    return seen


def test_every_field_of_everything_recorded_has_a_rule() -> None:
    kinds: set[Any] = set()
    for kind in (
        *items.Item.__subclasses__(),
        *(each.record for each in WATCHED_KINDS.values()),
        *EvictionResponse.__subclasses__(),
    ):
        recorded_structs(kind, kinds)
    without = {items.Item, Instant, EvictionResponse, OutcomeReason}  # ours

    for kind in kinds - without:
        anonymize._replacing(kind)  # raises LookupError


def read_annotations() -> set[str]:
    """Return the keys of all annotations that are read of any object."""
    kinds: list[Any] = [WireStruct]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {name for kind in kinds for name in kind.__struct_encode_fields__ if "/" in name}


def as_text(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=list).decode()


@pytest.mark.parametrize("resource", sorted(WATCHED_KINDS))
def test_what_a_person_wrote_into_an_annotation_is_replaced(resource: str) -> None:
    written = "by Alice, ACME-12"
    annotations = dict.fromkeys(read_annotations(), written)
    metadata = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "1"}
    wire = {
        "metadata": {
            **metadata,
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {},
        "status": {},
    }
    codec = ResourceCodec(WATCHED_KINDS[resource], InternTables())
    read = codec.decode_object(json.dumps(wire).encode())
    _, (found,) = renamed(read)

    assert written not in as_text(found)
    assert (written in as_text(read)) == (resource in ANNOTATED)


ANNOTATED = frozenset(
    {"daemonsets", "deployments", "jobs", "namespaces", "nodes", "podmigrationjobs", "pods"}
    | {"replicasets", "statefulsets"}
)
"""The kinds of which a text in an annotation is kept."""


def test_words_that_no_api_server_checks_are_replaced_but_for_those_that_rules_read() -> None:
    of_pod = PodReference("shop", "web", "p")
    kept = (
        Annotations(config_source="file"),
        MigrationJob(name="j", uid="j", pod=of_pod, mode="EvictDirectly"),
        DeleteOptions(propagation_policy="Foreground"),
    )
    free = (
        Annotations(config_source="acme"),
        MigrationJob(name="j", uid="j", pod=of_pod, mode="acme"),
        DeleteOptions(propagation_policy="acme", dry_run=("acme",)),
    )
    drained = Node(name="n", uid="n", drained="2026-01-01T00:00:00Z")
    _, found = renamed(*kept, *free, drained)

    assert (found[0].config_source, found[1].mode) == ("file", "EvictDirectly")
    assert found[2] == kept[2]
    assert found[-1].drained == drained.drained
    assert "acme" not in as_text(found)


def test_the_codes_of_migration_jobs_stay() -> None:
    codes = {each.reason for each in TRANSITIONS} | {each.target for each in TRANSITIONS}
    conditions = {job_state.EVICTION, job_state.RESERVATION_BOUND, job_state.POD_BOUND}
    conditions |= {job_state.RESERVATION_CREATED, job_state.RESERVATION_SCHEDULED}
    conditions |= {job_state.BOUND_POD_READY, job_state.POD_SCHEDULED, COMPLETE}

    assert codes | conditions | set(REASON_CODES) <= KEPT_WORDS


def test_a_migration_job_is_named_after_its_pod() -> None:
    uid = "fb53fecd-9a15-496f-b967-4ac841d60de7"
    job = MigrationJob(name=f"{uid}-1800000080", uid="j", pod=PodReference("shop", "web", uid))
    _, (found,) = renamed(job)

    assert found.pod.uid != uid
    assert found.name == f"{found.pod.uid}-1800000080"


def test_too_many_names_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pseudonyms, "MAX_WORDS", 3)

    with pytest.raises(RecordingError, match="--since"):
        renamed(*map(Namespace, ("alpha", "beta", "gamma", "delta")))


@pytest.mark.parametrize("mode", [PlanMode.RUN, PlanMode.UPSTREAM])
@pytest.mark.parametrize("seed", range(6))
def test_plan_says_the_same_of_a_cluster_under_other_names(
    seed: int, mode: PlanMode, tmp_path: Path
) -> None:
    rng, world = Random(seed), SimulatedCluster()
    draw_cluster(world, rng)
    cluster = write_cluster(world.store, tmp_path / "cluster.json")

    planned = Planned(draw_policy(rng), [cluster], tmp_path, mode, NOW, 1)

    assert_same_answers(planned)
    assert names_left(planned) == []


def conformance_cases() -> Iterator[Any]:
    """Yield some of the recorded clusters with a policy that can be read."""
    for each in case_parameters(FOLDER)[::13]:
        if not (case := each.values[0]) or not case.expects_error:
            yield each


@pytest.mark.parametrize("case", tuple(conformance_cases()))
def test_plan_says_the_same_of_a_recorded_cluster_under_other_names(
    case: RecordedCase, tmp_path: Path
) -> None:
    written = write_case(case, tmp_path)

    planned = Planned(
        Path(written["policy"]).read_text(),
        [written["cluster"]],
        tmp_path,
        PlanMode.UPSTREAM,
        written["now"],
        int(written["passes"]),
    )

    assert_same_answers(planned)
    assert names_left(planned) == []
