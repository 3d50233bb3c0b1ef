"""Files of koordinator's descheduler: what they come to here, and that nothing is left unsaid."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.rules import Rule
from reactive_desched.cli import main
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.migration.limits import workload_limit
from reactive_desched.migration.settings import arbitration_settings
from reactive_desched.model.migration_jobs import Mode, SkipGate
from reactive_desched.moves.limits import count_of
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.convert.rewriting import ConvertOptions, ConvertResult, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.load import check_source, load_files, load_runnable, load_sources
from reactive_desched.policy.protections import Protection
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.koordinator_files import KOORDINATOR_HEAD, migration_controller

LOW_NODE_LOAD = """\
profiles:
- plugins:
    deschedule: {disabled: [{name: "*"}]}
    balance: {enabled: [{name: LowNodeLoad}]}
  pluginConfig:
  - name: LowNodeLoad
    args:
      apiVersion: descheduler/v1alpha2
      kind: LowNodeLoadArgs
      highThresholds: {cpu: 75}
      lowThresholds: {cpu: 45}
"""


def read(text: str) -> Configuration:
    return load_sources([SourceText(text, "k.yaml")], plugin_registry())


def converted(text: str) -> ConvertResult:
    return convert_policy(SourceText(text, "k.yaml"), plugin_registry(), ConvertOptions())


def evictor(args: str) -> DefaultEvictorArgs:
    (profile,) = read(migration_controller(args)).policy.profiles
    return profile.evictor


def settings(args: str) -> dict[str, Any]:
    """Return what the file says of settings; what it leaves alone is not in it."""
    written = read(migration_controller(args)).written
    assert written is not None
    return written.model_dump(mode="json", by_alias=True, exclude_unset=True)


def test_a_file_without_arguments_runs_its_plugin_with_the_defaults_of_the_controller() -> None:
    configuration = read(KOORDINATOR_HEAD + LOW_NODE_LOAD)

    (profile,) = configuration.policy.profiles
    assert profile.name == "koord-descheduler"
    assert profile.balance == ("LowNodeLoad",)
    args = profile.args["LowNodeLoad"]
    assert isinstance(args, LowNodeLoadArgs)
    assert args.high_thresholds == {"cpu": 75.0}
    assert not profile.evictor.node_fit
    assert profile.evictor.min_replicas == 2
    assert configuration.settings.moves.max_moving.node == 2
    migration = configuration.settings.migration
    assert migration is not None
    assert migration.default_job_mode is Mode.RESERVATION_FIRST
    assert migration.scheduler_names == ("koord-scheduler",)
    assert configuration.settings.evictions.evictor == "migration"
    assert configuration.obstacles == ()


@pytest.mark.parametrize(
    ("args", "active"),
    [
        ("{}", set()),
        ("evictLocalStoragePods: true", {Protection.LOCAL_STORAGE}),
        ("skipEvictionGates: [LocalStorage]", {Protection.LOCAL_STORAGE}),
        ("evictSystemCriticalPods: true", {Protection.SYSTEM_CRITICAL}),
        ("skipEvictionGates: [SystemCritical]", {Protection.SYSTEM_CRITICAL}),
        ("evictFailedBarePods: true", {Protection.FAILED_BARE}),
        ("evictAllBarePods: true", {Protection.FAILED_BARE}),
        ("skipEvictionGates: [BarePods]", {Protection.FAILED_BARE}),
        ("ignorePvcPods: true", {Protection.PVC}),
        ("{ignorePvcPods: true, skipEvictionGates: [PVC]}", set()),
    ],
)
def test_what_the_controller_protects_the_default_evictor_does(
    args: str, active: set[Protection]
) -> None:
    assert evictor(args).protections ^ DefaultEvictorArgs().protections == active


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ("defaultJobMode: EvictDirectly", "node_fit", False),
        ("{nodeFit: true, defaultJobMode: EvictDirectly}", "node_fit", True),
        (
            "{nodeFit: true, skipEvictionGates: [NodeFit], defaultJobMode: EvictDirectly}",
            "node_fit",
            False,
        ),
        ("skipCheckExpectedReplicas: true", "min_replicas", 0),
        ("skipEvictionGates: [ExpectedReplicas]", "min_replicas", 0),
        ("{maxMigratingPerWorkload: 2, maxUnavailablePerWorkload: 4}", "min_replicas", 5),
        ("maxMigratingPerWorkload: 50%", "min_replicas", 2),
        ("skipEvictionGates: [LabelSelector]", "label_selector", None),
        ("skipEvictionGates: [Namespaces]", "namespace_label_selector", None),
    ],
)
def test_what_must_hold_before_an_eviction_is_taken_over(
    args: str, field: str, value: object
) -> None:
    if "LabelSelector" in args:
        args = f"{args}\nlabelSelector: {{matchLabels: {{a: b}}}}"
    if "[Namespaces]" in args:
        args = f"{args}\nnamespaces: {{include: [a]}}"
    assert getattr(evictor(args), field) == value


@pytest.mark.parametrize(
    ("namespaces", "chosen"),
    [("{include: [a, b]}", {"a", "b"}), ("{exclude: [a]}", {"b", "c"})],
)
def test_namespaces_are_chosen_by_the_label_with_their_name(
    namespaces: str, chosen: set[str]
) -> None:
    selector = evictor(f"namespaces: {namespaces}").namespace_label_selector

    assert selector is not None
    matching = {name for name in "abc" if selector.matches({"kubernetes.io/metadata.name": name})}
    assert matching == chosen


@pytest.mark.parametrize(
    ("args", "value", "name"),
    [
        ("priorityThreshold: {value: 1000}", 1000, None),
        ("priorityThreshold: {value: 1000, name: high}", 1000, None),
        ("priorityThreshold: {name: high}", None, "high"),
        ("priorityThreshold: {value: 2100000000}", None, None),
        ("{priorityThreshold: {value: 1}, evictSystemCriticalPods: true}", None, None),
        ("{priorityThreshold: {value: 1}, skipEvictionGates: [PriorityThreshold]}", None, None),
    ],
)
def test_the_threshold_is_the_one_that_counts(
    args: str, value: int | None, name: str | None
) -> None:
    threshold = evictor(args).priority_threshold
    assert (threshold.value, threshold.name) == (value, name)


@pytest.mark.parametrize(
    ("args", "moving"),
    [
        ("{}", {"node": 2}),
        ("maxMigratingPerNode: 0", {"node": None}),
        ("maxMigratingPerNode: null", {"node": 2}),
        ("skipEvictionGates: [MaxMigratingPerNode]", {"node": None}),
        ("maxMigratingGlobally: 7", {"node": 2, "cluster": 7}),
        ("{maxMigratingGlobally: 7, skipEvictionGates: [MaxMigratingGlobally]}", {"node": 2}),
        ("maxMigratingPerNamespace: 3", {"node": 2, "namespace": 3}),
        ("maxMigratingPerNamespace: 2147483647", {"node": 2, "namespace": 1_000_000}),
        ("maxMigratingPerWorkload: 0", {"node": 2, "owner": 1}),
        ("maxMigratingPerWorkload: -3", {"node": 2, "owner": 1}),
        ("maxMigratingPerWorkload: 25%", {"node": 2, "owner": "25%"}),
        ("maxMigratingPerWorkload: 250%", {"node": 2, "owner": "100%"}),
        ("maxMigratingPerWorkload: +0%", {"node": 2, "owner": 1}),
    ],
)
def test_limits_of_jobs_limit_the_pods_that_move(args: str, moving: dict[str, object]) -> None:
    assert settings(args)["moves"]["maxMoving"] == moving


@pytest.mark.parametrize(
    ("args", "rates"),
    [
        ("{}", (None, None, None)),
        ('{evictQPS: "0.1", evictBurst: 3, maxConcurrentReconciles: 4}', (0.1, 3, 4)),
        ("evictQPS: 1.0e-9", (0.0001, None, None)),
        (
            "{evictQPS: 1.0e9, evictBurst: 2147483647, maxConcurrentReconciles: 2147483647}",
            (1000.0, 1_000_000, 100),
        ),
    ],
)
def test_rates_of_jobs_are_taken_over_as_far_as_ours_go(
    args: str, rates: tuple[object, ...]
) -> None:
    jobs = settings(args)["migration"]
    named = ("evictQPS", "evictBurst", "maxConcurrentReconciles")
    assert tuple(jobs.get(name) for name in named) == rates
    assert "budgets" not in settings(args)


@pytest.mark.parametrize(
    ("args", "limiters"),
    [
        ("{}", {"workload": {"duration": 300.0}}),
        ("objectLimiters: {workload: {duration: 0s}}", None),
        ("objectLimiters: {namespace: {duration: 1m, maxMigrating: 10%}}", None),
        (
            "objectLimiters: {workload: {duration: 10m, maxMigrating: 25%, burst: 2}}",
            {"workload": {"duration": 600.0, "maxMigrating": "25%", "burst": 2}},
        ),
        (
            "objectLimiters: {namespace: {duration: 25h, maxMigrating: 5, burst: -1}}",
            {"namespace": {"duration": 86400.0, "maxMigrating": 5}},
        ),
    ],
)
def test_object_limiters_are_those_of_jobs(args: str, limiters: dict[str, object] | None) -> None:
    assert settings(args)["migration"].get("objectLimiters") == limiters


def test_the_settings_of_jobs_are_the_arguments_of_the_controller() -> None:
    written = read(
        migration_controller(
            "{defaultJobTTL: 10m, maxMigratingPerWorkload: +05%, maxUnavailablePerWorkload: -5%, "
            "maxMigratingGlobally: 2147483647, namespaces: {exclude: [kube-system]}, "
            "labelSelector: {matchLabels: {a: b}}, priorityThreshold: {value: 9, name: x}, "
            "skipEvictionGates: [PVC], evictLocalStoragePods: true, evictQPS: 3}"
        )
    ).settings.migration

    assert written is not None
    assert written.default_job_ttl_s == 600
    arbitration = arbitration_settings(written)
    assert arbitration.max_migrating_per_workload == "5%"
    assert arbitration.max_unavailable_per_workload == -1
    assert arbitration.max_migrating_globally == 1_000_000
    assert arbitration.max_migrating_per_node == 2
    assert arbitration.namespaces.exclude == {"kube-system"}
    assert arbitration.priority_threshold == 9
    assert arbitration.skip_eviction_gates == {SkipGate.PVC}
    assert arbitration.evict_local_storage_pods


@pytest.mark.parametrize("mode", list(Mode))
def test_findings_are_moved_by_jobs_with_reservations_where_a_place_comes_first(
    mode: Mode,
) -> None:
    configuration = read(migration_controller(f"{{defaultJobMode: {mode}, schedulerNames: [k]}}"))
    migration = configuration.settings.migration
    assert configuration.settings.evictions.evictor == "migration"
    assert migration is not None
    assert migration.placeholder is None
    assert migration.scheduler_names == ("k",), "a job may name the other mode"
    left_out = read(migration_controller(f"{{defaultJobMode: {mode}}}")).settings.migration
    assert left_out is not None
    reserving = ("koord-scheduler",) if mode is Mode.RESERVATION_FIRST else ()
    assert left_out.scheduler_names == reserving


def test_selectors_of_nodes_become_one_text() -> None:
    selector = (
        "{matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d, e]}]}"
    )
    own = "{matchExpressions: [{key: f, operator: Exists}, {key: g, operator: DoesNotExist}]}"
    text = migration_controller("defaultJobMode: EvictDirectly").replace(
        "- name: p\n", f"- name: p\n  nodeSelector: {own}\n"
    )
    read_selector = read(f"{text}nodeSelector: {selector}\n").policy.node_selector

    assert str(read_selector) == "a in (b),c notin (d,e),f,!g"


def test_limits_of_a_pass_are_the_policys() -> None:
    text = migration_controller("defaultDeleteOptions: {gracePeriodSeconds: 7}")
    limits = "maxNoOfPodsToEvictPerNode: 1\nmaxNoOfPodsToEvictTotal: 3\n"
    policy = read(text + limits).policy

    assert policy.limits.by_scope() == {"node": 1, "namespace": None, "cluster": 3}
    assert policy.grace_period_s == 7


def test_the_eviction_policy_and_the_delete_options_are_those_of_jobs() -> None:
    text = (
        "evictionPolicy: Delete\n"
        "defaultDeleteOptions: {gracePeriodSeconds: 5, propagationPolicy: Orphan}"
    )
    migration = settings(text)["migration"]

    assert migration["evictionPolicy"] == "Delete"
    assert migration["defaultDeleteOptions"] == {
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Orphan",
    }


def test_how_the_api_server_is_asked_is_taken_over_where_it_is_not_the_default() -> None:
    text = migration_controller("{}")
    client = read(f"{text}clientConnection: {{qps: 20, burst: 0}}\n").settings.client
    assert (client.requests_per_second, client.burst) == (20, 100)


def test_each_profile_has_the_evictor_that_it_enables() -> None:
    other = LOW_NODE_LOAD.replace("profiles:\n- plugins:\n", "- name: plain\n  plugins:\n").replace(
        "  pluginConfig:\n",
        '    evict: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}\n'
        '    filter: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}\n'
        "  pluginConfig:\n",
    )
    evictions = read(migration_controller("{}") + other).settings.evictions

    assert (evictions.evictor_of("p"), evictions.evictor_of("plain")) == ("migration", "api")


def test_what_differs_by_default_is_said_at_the_profile(golden: Golden) -> None:
    file = SourceText(KOORDINATOR_HEAD + LOW_NODE_LOAD, "k.yaml")
    found = [str(each) for each in check_source(file, plugin_registry()).warnings]

    [said] = [each for each in found if "defaultJobMode" in each]
    assert said.startswith("k.yaml:5:")
    assert golden() in said
    assert "write EvictDirectly as defaultJobMode in its pluginConfig" in said


def test_the_default_evictor_has_its_own_arguments() -> None:
    text = LOW_NODE_LOAD.replace(
        "  pluginConfig:\n",
        '    evict: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}\n'
        "    filter: {disabled: [{name: MigrationController}]}\n"
        "  pluginConfig:\n  - {name: DefaultEvictor, args: {minReplicas: 4}}\n",
    )
    configuration = read(KOORDINATOR_HEAD + text)

    assert configuration.policy.profiles[0].evictor.min_replicas == 4
    assert configuration.written is None
    assert configuration.settings.evictions.evictor == "api"
    assert configuration.obstacles == ()


def test_a_default_that_a_profile_enables_again_stays() -> None:
    text = LOW_NODE_LOAD.replace(
        "  pluginConfig:\n",
        '    evict: {disabled: [{name: "*"}], enabled: [{name: MigrationController}]}\n'
        "  pluginConfig:\n",
    )
    assert read(KOORDINATOR_HEAD + text).settings.migration is not None


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (migration_controller("defaultJobMode: EvictDirectly"), []),
        (migration_controller("{}"), []),
        (
            "dryRun: true\n" + migration_controller("defaultJobMode: EvictDirectly"),
            [Rule.KOORDINATOR_ONLY],
        ),
        (
            migration_controller("{dryRun: true, defaultJobMode: EvictDirectly}"),
            [Rule.KOORDINATOR_ONLY],
        ),
    ],
)
def test_what_is_not_acted_upon_keeps_a_file_from_running(text: str, rules: list[Rule]) -> None:
    found = check_source(SourceText(text, "k.yaml"), plugin_registry())
    assert [each.rule for each in found.errors] == rules


def test_settings_of_ours_win_and_that_is_said() -> None:
    head = "---\napiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    ours = f"{head}moves: {{cooldown: 1s}}\n"
    text = migration_controller("{maxMigratingPerNode: 1, defaultJobMode: EvictDirectly}")
    configuration = read(text + ours)

    assert configuration.settings.moves.cooldown_s == 1
    assert configuration.settings.moves.max_moving.node == 10
    said = [each for each in configuration.warnings if "beside other settings" in each.message]
    assert [each.rule for each in said] == [Rule.KOORDINATOR_DIFFERENCE]
    assert b"maxMoving" not in converted(text + ours).text


def test_a_file_is_converted_with_its_comments_and_stays_converted() -> None:
    text = migration_controller(
        "defaultJobMode: EvictDirectly\nmaxMigratingPerNode: 1 # one at a time\n"
        "evictLocalStoragePods: true # caches\n"
    )
    new = converted(text)

    again = converted(new.text.decode())
    assert new.is_changed
    assert not again.is_changed
    lines = [line.strip() for line in new.text.decode().splitlines()]
    assert "node: 1 # one at a time" in lines
    assert "- PodsWithLocalStorage # caches" in lines
    assert lines.count("---") == 1


def test_what_keeps_a_file_from_running_is_said_when_it_is_converted() -> None:
    new = converted("dryRun: true\n" + migration_controller("{}"))

    said = [each.path for each in new.notices if each.rule is Rule.KOORDINATOR_ONLY]
    assert said == ["dryRun"]
    assert check_source(SourceText(new.text, "new.yaml"), plugin_registry()).errors == ()


def test_what_nothing_here_stands_for_is_a_comment_without_which_nothing_runs() -> None:
    new = converted(migration_controller("defaultDeleteOptions: {dryRun: [All]}"))

    assert [each.rule for each in new.left_out] == [Rule.KOORDINATOR_ONLY]
    read = check_source(SourceText(new.text, "new.yaml"), plugin_registry())
    assert read.errors == ()
    assert read.policy is not None
    assert read.policy.plugin_names == frozenset()


@pytest.mark.parametrize("policy", ["Delete", "SoftEviction"])
def test_the_eviction_policy_is_that_of_jobs(policy: str) -> None:
    assert settings(f"evictionPolicy: {policy}")["migration"]["evictionPolicy"] == policy


def test_a_file_inside_a_config_map_is_checked_at_its_lines() -> None:
    inner = "".join(f"    {line}\n" for line in migration_controller("a: b").splitlines())
    text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  koord-descheduler-config: |\n" + inner
    found = check_source(SourceText(text, "k.yaml"), plugin_registry()).errors

    assert [(each.line, each.rule) for each in found] == [
        (2, Rule.ENCLOSED_POLICY),
        (15, Rule.UNKNOWN_FIELD),
    ]


def test_every_argument_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "MigrationController"]) == 0
    said = capsys.readouterr().out
    for field in ("defaultJobMode", "evictQPS", "skipEvictionGates", "objectLimiters"):
        assert f"\n  {field} " in said
    assert main(["policy", "explain", "MigrationController.evictBurst"]) == 0
    assert "Most evictions at once." in capsys.readouterr().out


LIMITS = st.one_of(st.none(), st.integers(-5, 2_000_000), st.integers(-20, 300).map("{}%".format))
COUNTS = st.one_of(st.none(), st.integers(0, 2**31 - 1))
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "maxMigratingGlobally": COUNTS,
        "maxMigratingPerNode": COUNTS,
        "maxMigratingPerNamespace": COUNTS,
        "maxMigratingPerWorkload": LIMITS,
        "maxUnavailablePerWorkload": LIMITS,
        "defaultJobMode": st.sampled_from(["", *Mode]),
        "evictionPolicy": st.sampled_from(["", "Eviction", "Delete"]),
        "evictQPS": st.one_of(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6).map(str)),
        "evictBurst": st.integers(1, 2**31 - 1),
        "evictAllBarePods": st.booleans(),
        "evictSystemCriticalPods": st.booleans(),
        "nodeFit": st.booleans(),
        "priorityThreshold": st.fixed_dictionaries(
            {}, optional={"value": st.integers(-(2**31), 2**31 - 1), "name": st.just("high")}
        ),
        "skipEvictionGates": st.lists(st.sampled_from(list(map(str, SkipGate)))),
        "objectLimiters": st.dictionaries(
            st.sampled_from(["workload", "namespace", "node"]),
            st.fixed_dictionaries(
                {"duration": st.sampled_from(["0s", "90s", "-1s", "1h30m"])},
                optional={"maxMigrating": LIMITS, "burst": st.integers(-1, 5)},
            ),
        ),
    },
)


@given(args=ARGS, replicas=st.integers(2, 500))
def test_whatever_koordinator_takes_is_read_converted_and_no_faster_here(
    args: dict[str, Any], replicas: int
) -> None:
    text = migration_controller(json.dumps(args))
    configuration = read(text)
    new = converted(text)  # which fails if the new text would say something else

    assert check_source(SourceText(new.text, "new.yaml"), plugin_registry()).errors == ()
    moving, skips = configuration.settings.moves.max_moving, args.get("skipEvictionGates", ())
    for scope, suffix in (
        ("node", "PerNode"),
        ("namespace", "PerNamespace"),
        ("cluster", "Globally"),
    ):
        most = args.get(f"maxMigrating{suffix}")
        if most and f"MaxMigrating{suffix}" not in skips:
            assert 1 <= getattr(moving, scope) <= most
    most = args.get("maxMigratingPerWorkload")
    if most is not None and "MaxMigratingPerWorkload" not in skips:
        assert moving.owner is not None
        theirs = workload_limit(replicas, most)
        assert count_of(moving.owner, replicas) <= max(1, theirs) or theirs == replicas
    cluster = configuration.settings.budgets.cluster
    assert cluster is not None
    assert cluster.rate.per_second <= max(0.5, 1.001 * float(args.get("evictQPS", 10)))


MOVING = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: moving
  pluginConfig:
  - name: MigrationController
    args: {defaultJobMode: EvictDirectly, maxMigratingPerNode: 5, evictLocalStoragePods: true}
  plugins:
    balance: {enabled: [RemoveDuplicates]}
    evict: {enabled: [MigrationController]}
    filter: {enabled: [MigrationController]}
- name: directly
  plugins: {balance: {enabled: [RemoveDuplicates]}}
"""
"""A policy in the SIG descheduler's format with what evicts as koordinator's profiles say it."""


def test_a_profile_of_a_policy_may_move_pods_as_those_of_koordinator_do() -> None:
    configuration = read(MOVING)

    evictions, migration = (
        configuration.controller.evictions,
        configuration.controller.migration,
    )
    assert [evictions.evictor_of(each) for each in ("moving", "directly")] == ["migration", "api"]
    assert migration is not None
    assert migration.max_migrating_per_node == 5
    assert migration.evict_local_storage_pods
    moving, directly = configuration.policy.profiles
    assert moving.filter == directly.filter == ("DefaultEvictor",)


def test_a_policy_that_moves_pods_by_jobs_stays_as_it_is_when_it_is_converted() -> None:
    assert converted(MOVING).text == MOVING.encode()


SETTINGS_BESIDE = "---\napiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MOVING + SETTINGS_BESIDE, "plugins.evict: does not count beside settings"),
        (MOVING.replace("evict: {enabled: [Mig", "evict: {enabled: [Imm"), "does not evict"),
        (MOVING.replace("maxMigratingPerNode: 5", "maxMigratingPerNod: 5"), "maxMigratingPerNod"),
        (MOVING.replace("maxMigratingPerNode: 5", "dryRun: true"), "would evict"),
    ],
    ids=["settings beside it", "another evictor", "a misspelt argument", "a dry run"],
)
def test_what_such_a_policy_cannot_mean_is_refused(text: str, words: str) -> None:
    found = check_source(SourceText(text, "k.yaml"), plugin_registry())

    assert any(words in str(error) for error in found.errors)


def test_such_a_file_is_read_and_not_run(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("dryRun: true\n" + migration_controller("{}"))

    assert [each.line for each in load_files([file], plugin_registry()).obstacles] == [1]
    with pytest.raises(PolicyErrors) as caught:
        load_runnable([file], plugin_registry())
    assert [each.rule for each in caught.value.diagnostics] == [Rule.KOORDINATOR_ONLY]
    assert caught.value.texts[str(file)] == file.read_bytes()
