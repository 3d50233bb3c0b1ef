"""Our own settings: safe defaults, strict reading."""

import re
from collections.abc import Callable, Iterator
from typing import get_args

import pytest
from pydantic import BaseModel

from reactive_desched.api.rules import Rule
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.settings.debounce import (
    DebounceSettings,
    PluginDebounceSettings,
    WaitSettings,
)
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings, default_settings
from reactive_desched.policy.yaml.decode import fields_by_key
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.primitives.timers import DebounceConfig
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes
from tests.support.policy_texts import load_settings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def settings(text: str) -> ReactiveSettings:
    return load_settings(HEAD + text, "s.yaml")


def told(text: str) -> list[str]:
    with pytest.raises(PolicyErrors) as caught:
        settings(text)
    return without_codes(caught.value)


def warnings_of(text: str) -> tuple[Diagnostic, ...]:
    return check_source(SourceText(HEAD + text, "s.yaml"), plugin_registry()).warnings


def test_without_a_word_everything_is_paced() -> None:
    read = settings("")

    assert read == ReactiveSettings()
    assert (read.debounce.quiet_s, read.debounce.max_wait_s) == (1, 10)
    cluster, node, namespace = read.budgets.cluster, read.budgets.node, read.budgets.namespace
    assert cluster is not None
    assert node is not None
    assert namespace is not None
    assert (cluster.rate.per_second, cluster.burst) == (0.5, 10)
    assert (node.rate.per_second, node.burst) == (0.1, 3)
    assert (namespace.rate.per_second, namespace.burst) == (0.2, 5)
    assert (read.client.requests_per_second, read.client.burst) == (50, 100)
    assert read.server.listen == "127.0.0.1:10258"
    assert read.evictions.max_in_flight == 50
    assert (read.evictions.retry.initial_s, read.evictions.retry.max_s) == (5, 300)
    assert read.events.kubernetes


def test_what_holds_without_settings_is_what_validated_defaults_are() -> None:
    assert default_settings() == ReactiveSettings() == ReactiveSettings.model_validate_json("{}")
    assert default_settings().model_fields_set == frozenset()


def test_every_section_is_read() -> None:
    read = settings(
        """\
debounce: {quiet: 500ms, maxWait: 1m,
  perPlugin: {PodLifeTime: {quiet: 2s}, RemoveDuplicates: {maxWait: 2m}}}
budgets: {cluster: {evictions: 20, per: 1h, burst: 5}, node: null, namespace: {burst: 1}}
client: {requestsPerSecond: 2.5, burst: 1, connectTimeout: 1s, readTimeout: 2s, totalTimeout: 3s}
server: {listen: "[::1]:0"}
journal: {directory: /tmp/j, maxSegmentBytes: 4096}
logging: {format: json, level: debug}
evictions: {maxInFlight: 7, retry: {initial: 1s, max: 1m}}
events: {kubernetes: false}
"""
    )
    assert read.debounce.for_plugin("PodLifeTime") == DebounceConfig(2.0, 60.0)
    assert read.debounce.for_plugin("RemoveDuplicates") == DebounceConfig(0.5, 120.0)
    assert read.debounce.for_plugin("RemoveFailedPods") == DebounceConfig(0.5, 60.0)
    assert read.budgets.cluster is not None
    assert read.budgets.cluster.rate.per_second == 20 / 3600
    assert read.budgets.cluster.burst == 5
    assert read.client.requests_per_second == 2.5
    assert read.client.total_timeout_s == 3
    assert read.server.listen == "[::1]:0"
    assert read.journal.directory == "/tmp/j"
    assert read.journal.max_segment_bytes == 4096
    assert (read.logging.format, read.logging.level) == ("json", "debug")
    assert read.evictions.max_in_flight == 7
    assert (read.evictions.retry.initial_s, read.evictions.retry.max_s) == (1, 60)
    assert not read.events.kubernetes


def test_null_switches_a_budget_off_and_a_part_keeps_the_rest_of_its_defaults() -> None:
    budgets = settings("budgets: {node: null, namespace: {burst: 1}}").budgets
    assert budgets.node is None
    assert budgets.namespace is not None
    assert (budgets.namespace.evictions, budgets.namespace.burst) == (12, 1)
    assert budgets.cluster is not None


@pytest.mark.parametrize(
    ("section", "key", "switch"),
    [
        ("recording: {maxBytes: 1000000000}", "recording", "enabled"),
        ("recording: {}", "recording", "enabled"),
        ("leaderElection: {resourceName: other}", "leaderElection", "leaderElect"),
    ],
)
def test_a_section_that_does_nothing_without_its_switch_is_named(
    section: str, key: str, switch: str
) -> None:
    (warning,) = warnings_of(section)

    assert (warning.rule, warning.path) == (Rule.NO_EFFECT, key)
    assert f"{switch}: true" in warning.hint


@pytest.mark.parametrize(
    "section",
    [
        "recording: {enabled: false, maxBytes: 1000000000}",
        "recording: {enabled: true}",
        "leaderElection: {leaderElect: false, resourceName: other}",
        "logging: {level: debug}",
    ],
)
def test_one_whose_switch_is_written_is_not(section: str) -> None:
    assert warnings_of(section) == ()


def test_null_elsewhere_means_that_a_field_is_not_there() -> None:
    assert settings("debounce: {quiet: null}\nserver: null") == ReactiveSettings()


@pytest.mark.parametrize(
    "text",
    [
        "debouce: {}",
        "debounce: {quiet_s: 1s}",
        "debounce: {quiet: 1}",
        "debounce: {quiet: 20s}",
        "debounce: {perPlugin: {PodLifeTime: {quiet: 20s}}}",
        "debounce: {perChange: {NodeAdded: {quiet: 20s}}}",
        "debounce: {perPlugin: {PodLifeTime: {perChange: {NodeAdded: {quiet: 20s}}}}}",
        "debounce: {flapping: {changes: 1}}",
        "debounce: {flapping: {quiet: 1h}}",
        "debounce: {perPlugin: {PodLifeTime: {quit: 20s}}}",
        "budgets: {cluster: {evictions: 0}}",
        "budgets: {cluster: {per: 0s}}",
        "budgets: {zones: {}}",
        "budgets: {warmUp: {fromPercent: 0}}",
        "budgets: {window: 0s}",
        "schedules: [{close: [tue]}]",
        "minPodAge: 3m",
        "leaderElection: {namespace: default}",
        "budgets: {guards: {minPodAge: 3m}}",
        "brakes: {health: [{name: a, moves: {}, query: vector(1)}]}",
        "percent: 10",
        "budgets: {schedules: [{schedule: 0 9 * * mo-fr, duration: 8h, evictions: 0}]}",
        "budgets: {schedules: [{schedule: 0 9 * * *, duration: 0s, evictions: 0}]}",
        (
            "budgets:\n  schedules:\n"
            "  - {schedule: 0 9 * * *, duration: 8h, evictions: 0, timeZone: Europe/Berln}"
        ),
        "budgets: {schedules: [{schedule: 0 9 * * *, duration: 8h, evictions: half}]}",
        "budgets: {schedules: [{schedule: 0 9 * * *, duration: 8h, evictions: -1}]}",
        "budgets: {schedules: [{schedule: 0 9 * * *, duration: 8h}]}",
        "budgets: {schedules: [{evictions: 0}]}",
        "budgets: {schedules: [{allow: [tue], close: [fri]}]}",
        "budgets: {schedules: [{allow: [tue], schedule: 0 9 * * *, duration: 8h}]}",
        "budgets: {schedules: [{allow: [tue], duration: 8h}]}",
        "budgets: {schedules: [{close: [christmas]}]}",
        "budgets: {schedules: [{close: [tue, 2026-12-24 to 2026-12-20]}]}",
        "budgets: {schedules: [{close: [tue], timeZone: Berlin}]}",
        "budgets: {schedules: [{close: [tue], nodeSelector: {pool: batch}}]}",
        "budgets: {schedules: [{close: [tue], namespaceSelector: 'tier in gold'}]}",
        "budgets: {schedules: [{close: tue}]}",
        "budgets: {schedules: [{calendar: {file: a.ics}}]}",
        "budgets: {schedules: [{name: a, calendar: {}}]}",
        "budgets: {schedules: [{name: a, calendar: {file: a.ics, url: 'https://a/b.ics'}}]}",
        "budgets: {schedules: [{name: a, calendar: {url: 'http://a/b.ics'}}]}",
        "budgets: {schedules: [{name: a, calendar: {url: 'https://me:pw@a/b.ics'}}]}",
        "budgets: {schedules: [{name: a, calendar: {file: a.ics, refresh: 1s}}]}",
        "budgets: {schedules: [{name: a, calendar: {file: a.ics, whileUnread: maybe}}]}",
        "budgets: {schedules: [{name: a, calendar: {file: a.ics}, close: [tue]}]}",
        "budgets: {named: [{name: a}]}",
        "budgets: {named: [{evictions: 1}]}",
        "budgets: {named: [{name: '', evictions: 1}]}",
        "budgets: {named: [{name: a, evictions: 1}, {name: a, evictions: 2}]}",
        "drains: [{name: a, maxNodeAge: 3d}, {name: b, maxNodeAge: 9d}, {name: a, maxNodeAge: 1d}]",
        "brakes: {health: [{name: a, moves: {}}, {name: a, moves: {}}]}",
        "budgets: {named: [{name: a, evictions: 1, each: pod}]}",
        "budgets: {named: [{name: a, evictions: 0}]}",
        "budgets: {growsAboveNodes: 0}",
        "budgets: {cluster: 10/m}",
        "budgets: {warmUp: off}",
        "brakes: {storm: none}",
        "moves: {maxMoving: {zone: unlimited}}",
        "budgets: {cluster: {burst: off}}",
        "budgets: off",
        "guards: {disabled: off}",
        "journal: off",
        "moves: {cooldown: off}",
        "evictions: {retry: {initial: off}}",
        "evictions: {maxInFlight: 10%}",
        "brakes: {storm: {window: never}}",
        "brakes: {storm: {pods: 10%}}",
        "brakes: {storm: {percent: 10%}}",
        "client: {requestsPerSecond: 0}",
        "client: {connectTimeout: 0s}",
        "client: {readTimeout: 2m}",
        "moves: {maxMoving: {owner: 0.1}}",
        "server: {listen: localhost}",
        "server: {listen: 8080}",
        "server: {listen: '127.0.0.1:65536'}",
        "journal: {maxSegmentBytes: 16MiB}",
        "logging: {format: JSON}",
        "logging: {level: loud}",
        "evictions: {retry: {initial: 10m}}",
        "evictions: {retry: {initial: 0s}}",
        "guards: {standingTimes: {nodeUse: 10m}}",
        "migration: {objectLimiters: {namespace: {duration: 25h}}}",
    ],
)
def test_a_wrong_setting_is_reported_with_its_place_and_the_remedy(
    text: str, golden: Golden
) -> None:
    assert told(text) == [golden()]


def leaves(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield the path of each field that is no section itself."""
    for key, annotation in fields_by_key(model).items():
        sections = [
            each
            for each in (annotation, *get_args(annotation))
            if isinstance(each, type) and issubclass(each, BaseModel)
        ]
        if sections:
            yield from leaves(sections[0], f"{above}{key}.")
        else:
            yield f"{above}{key}"


@pytest.mark.parametrize("value", ["0.1", "-7", "true", "[]", "{}", "[[]]", "wrong"])
def test_no_error_is_below_a_field_that_has_nothing_below_it(value: str) -> None:
    for path in leaves(ReactiveSettings):
        *sections, field = path.split(".")
        opened = "".join(f"{each}: {{" for each in sections)
        text = f"{opened}{field}: {value}{'}' * len(sections)}"
        try:
            settings(text)
        except PolicyErrors as errors:
            names = {line.split(": ")[1] for line in without_codes(errors)}
            below = re.compile(re.escape(path) + r"\.")
            assert not any(map(below.match, names)), names


def test_all_errors_in_all_sections_are_reported_at_once() -> None:
    lines = told("debounce: {quiet: 20s}\nserver: {listen: x}\nbudgets: {node: {burst: 0}}\n")
    assert [line.split(": ")[1] for line in lines] == [
        "debounce.quiet",
        "server.listen",
        "budgets.node.burst",
    ]


def test_an_unknown_plugin_cannot_have_its_own_debounce(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    wait = "debounce: {perPlugin: {PodLifetime: {quiet: 2s}, PodLifeTime: {quiet: 2s}}}\n"
    assert problems(f"{head}---\n{HEAD}{wait}") == [golden()]


def test_profiles_with_an_evictor_of_their_own_are_those_of_the_policy(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    profile = head.rstrip() + "\nprofiles: [{name: nightly}]\n"
    evictors = "evictions: {perProfile: {nightlt: migration, nightly: api}}\n"
    assert problems(f"{profile}---\n{HEAD}{evictors}migration: {{}}\n") == [
        golden("no such profile")
    ]
    assert problems(f"{profile}---\n{HEAD}evictions: {{perProfile: {{nightly: migration}}}}\n") == [
        golden("no migration")
    ]


def test_a_schedule_names_profiles_that_the_policy_has(
    problems: Callable[[str], list[str]], golden: Golden
) -> None:
    head = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: [{name: web}]\n"
    whom = "profiles: [web, batch]"
    entry, budget = f"{{close: [tue], {whom}}}", f"{{name: a, evictions: 1, {whom}}}"
    written = f"{HEAD}budgets:\n  schedules:\n  - {entry}\n  named:\n  - {budget}\n"

    assert "\n".join(problems(f"{head}---\n{written}")) == golden()


def test_profiles_and_plugins_with_a_mode_are_there(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    profile = head.rstrip() + "\nprofiles: [{name: nightly}]\n"
    modes = "profiles: {nightlt: {mode: observe}, nightly: {plugins: {PodLifetime: {}}}}\n"
    assert problems(f"{profile}---\n{HEAD}{modes}") == [golden("profile"), golden("plugin")]


def test_the_mode_of_a_plugin_comes_before_that_of_its_profile_and_that_before_all() -> None:
    settings = ReactiveSettings.model_validate(
        {
            "mode": "observe",
            "profiles": {"a": {"mode": "act", "plugins": {"X": {"mode": "observe"}, "Y": {}}}},
        }
    )
    found = {
        (profile, plugin): settings.mode_of(profile, plugin) for profile in "ab" for plugin in "XYZ"
    }
    acting = {name for name, mode in found.items() if mode == "act"}
    assert acting == {("a", "Y"), ("a", "Z")}


def test_a_schedule_names_plugins_that_there_are(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    plugins = "plugins: [PodLifeTime, PodLifetime]"
    entry = f"{{schedule: 0 9 * * *, duration: 8h, evictions: 0, {plugins}}}"
    assert problems(f"{head}---\n{HEAD}budgets:\n  schedules:\n  - {entry}\n") == [golden()]


def test_waits_of_a_plugin_and_kind_of_change_come_before_the_usual_ones() -> None:
    debounce = DebounceSettings(
        quiet_s=2,
        per_change={"NodeTaintsChanged": WaitSettings(quiet_s=5)},
        per_plugin={
            "A": PluginDebounceSettings(
                max_wait_s=60, per_change={"NodeTaintsChanged": WaitSettings(quiet_s=9)}
            ),
        },
    )

    assert debounce.by_change("A") == {"NodeTaintsChanged": DebounceConfig(9, 60)}
    assert debounce.by_change("B") == {"NodeTaintsChanged": DebounceConfig(5, 10)}


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: reactive-desched/v1\nkind: ReactiveSettings\n",
        "apiVersion: reactive-desched/v1alpha1\nkind: Settings\n",
        "budgets: {}\nkind: ReactiveSettings\n",
        "apiVersion: reactive-desched/v1alpha1\nbudgets: {}\n",
    ],
)
def test_settings_without_their_name_are_distinguished_from_policies(
    text: str, golden: Golden
) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_settings(text, "s.yaml")
    assert without_codes(caught.value) == [golden()]


def test_settings_and_a_policy_share_a_text_in_any_order(
    read: Callable[[str], Configuration], head: str
) -> None:
    ours = f"{HEAD}evictions: {{maxInFlight: 7}}\n"
    theirs = f"{head}gracePeriodSeconds: 3\n"
    for text in (f"{ours}---\n{theirs}", f"---\n{theirs}---\n{ours}"):
        configuration = read(text)
        assert configuration.settings.evictions.max_in_flight == 7
        assert configuration.policy.grace_period_s == 3
        assert load_settings(text, "x").evictions.max_in_flight == 7


def test_code_gives_seconds_as_numbers() -> None:
    debounce = DebounceSettings(quiet_s=2, per_plugin={"A": PluginDebounceSettings(quiet_s=0.5)})
    assert debounce.for_plugin("A") == DebounceConfig(0.5, 10.0)
    assert debounce.for_plugin("B") == DebounceConfig(2.0, 10.0)


def sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from sections(part)


@pytest.mark.parametrize("model", [ReactiveSettings, PolicyDocument, DefaultEvictorArgs])
def test_every_field_a_person_can_write_is_described(model: type[BaseModel]) -> None:
    silent = [
        f"{section.__name__}.{name}"
        for section in sections(model)
        for name, field in section.model_fields.items()
        if not field.description
    ]
    assert silent == []


def test_drains_need_the_plugin_that_finds_the_pods(
    problems: Callable[[str], list[str]], golden: Golden
) -> None:
    policy = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: drains
  plugins:
    deschedule: {enabled: [PLUGIN]}
"""
    drains = f"---\n{HEAD}drains: [{{name: old, maxNodeAge: 720h}}]\n"
    without = policy.replace("PLUGIN", "RemoveFailedPods")
    assert problems(f"{without}{drains}") == [golden()]
    with_it = SourceText(f"{policy.replace('PLUGIN', 'DrainNodes')}{drains}", "p.yaml")
    assert load_sources([with_it], plugin_registry()).settings.drains[0].name == "old"


def test_a_rule_for_drains_names_some_nodes(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    assert problems(f"{head}---\n{HEAD}drains: [{{name: all}}]\n")[:1] == [golden()]
