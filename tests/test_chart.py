"""What the Helm chart has from elsewhere is current, and its own values meet their schema."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from tests.support.json_schema import JsonSchema
from tools.write_chart import CHART, MONITORING, upstream_values, values_schema, written

Values = dict[str, Any]  # YAML as written by people

VALUES: Values = yaml.load((CHART / "values.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
UPSTREAM = upstream_values()


@cache
def schema() -> Values:
    found: Values = json.loads(written()["values.schema.json"])
    return found


def accepts(**changed: object) -> bool:
    return JsonSchema(schema()).accepts(VALUES | changed)


def test_the_chart_has_the_dashboards_of_the_monitoring_folder_and_no_others() -> None:
    ours = {path.name for path in (MONITORING / "dashboards").glob("*.json")}

    assert {path.name for path in (CHART / "files" / "dashboards").glob("*.json")} == ours


def test_the_schema_accepts_the_default_values() -> None:
    assert accepts()


def test_every_value_has_a_default_that_says_what_it_is_for() -> None:
    of_charts_that_include_it = {"global", "enabled"}

    assert (
        schema()["properties"].keys() == VALUES.keys() | UPSTREAM.keys() | of_charts_that_include_it
    )


def test_what_may_be_null_may_be_so_in_values_too() -> None:
    assert accepts(settings={"budgets": {"zone": None, "warmUp": None}, "sinks": None})
    assert accepts(settings={"budgets": {"zone": {"evictions": 3, "per": "1m"}}})


@pytest.mark.parametrize(
    "path", sorted((CHART / "templates").iterdir()), ids=lambda path: path.name
)
def test_no_template_has_a_selector_of_everything(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert not re.search(r"[sS]elector: *(\{\}|\n *(- |policyTypes|endpoints))", text)


@pytest.mark.parametrize(
    "extra",
    [
        {"env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {}}}]},
        {"imagePullSecrets": [{"name": "a"}, "b"]},
        {"enabled": True, "global": {"imageRegistry": "x"}},
        {"commonLabels": {"team": "a"}, "nameOverride": "mover"},
        {"podSecurityContext": {"runAsUser": 1000}},
    ],
    ids=str,
)
def test_the_schema_accepts_what_charts_usually_take(extra: Values) -> None:
    assert accepts(**extra)


@pytest.mark.parametrize("name", sorted(UPSTREAM))
def test_the_schema_refuses_a_value_of_the_sig_descheduler_with_what_to_write(name: str) -> None:
    assert not accepts(**{name: {"any": ["thing"]}})
    assert UPSTREAM[name] in schema()["properties"][name]["const"]


@pytest.mark.parametrize(
    ("image", "is_ours"),
    [
        ("registry.k8s.io/descheduler/descheduler", False),
        ("mirror.example/k8s/descheduler/descheduler", False),
        ("r.example/team/reactive-desched", True),
        ("r.example/my-descheduler/descheduler", True),
    ],
)
def test_the_schema_refuses_the_image_of_the_sig_descheduler(image: str, *, is_ours: bool) -> None:
    assert accepts(image=VALUES["image"] | {"repository": image}) is is_ours


@pytest.mark.parametrize(
    "right",
    [
        *({"schedule": text} for text in ("*/2 * * * *", "0 9-17 * * MON-FRI", "@hourly")),
        *({"resources": {"limits": {"cpu": amount}}} for amount in ("250m", "1.5", 2, "1e3", "4")),
        *({"persistence": VALUES["persistence"] | {"size": size}} for size in ("2Gi", "500M")),
    ],
    ids=str,
)
def test_the_schema_accepts_schedules_and_quantities_as_kubernetes_writes_them(
    right: Values,
) -> None:
    assert accepts(**right)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dryrun": True},
        {"env": {"A": "b"}},
        {"extraEnv": [{"name": "A", "value": 5}]},
        {"imagePullSecrets": "a"},
        {"networkPolicy": VALUES["networkPolicy"] | {"egres": {}}},
        {"dryRun": "yes"},
        {"kind": "DaemonSet"},
        {"schedule": "* * *"},
        {"schedule": "every hour"},
        {"persistence": VALUES["persistence"] | {"size": "10 GB"}},
        {"resources": {"limits": {"memory": "lots"}}},
        {"settings": {"brake": {}}},
        {"settings": {"debounce": {"quiet": []}}},
        {"settings": {"budgets": {"zone": {"evictions": "x"}}}},
        {"policy": {"profiles": [{"name": "a", "pluginConfig": [{"name": "NoSuchPlugin"}]}]}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_unknown_or_of_a_wrong_type(wrong: Values) -> None:
    assert not accepts(**wrong)


ARGS_OF_POD_LIFE_TIME: list[Values] = [
    {},
    {"states": []},
    {"states": ["Failed"]},
    {"maxPodLifeTimeSeconds": 5},
    {"maxPodLifeTimeSeconds": 5, "namespaces": {"include": ["a"]}},
    {"maxPodLifeTimeSeconds": 5, "namespaces": {"include": ["a"], "exclude": ["b"]}},
]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"settings": {"moves": {"cooldown": "5m", "maxMoving": {"owner": "10%"}}}},
        {"settings": {"moves": {"cooldown": None, "maxMoving": {"owner": None}}}},
        {"settings": {"moves": {"cooldown": "five"}}},
        {"settings": {"moves": {"maxMoving": {"owner": 0.5}}}},
        {"settings": {"debounce": {"perPlugin": {"PodLifeTime": {"quiet": "1s"}}}}},
        {"settings": {"debounce": {"perPlugin": {"NoSuchPlugin": {"quiet": "1s"}}}}},
        {"image": {**VALUES["image"], "repository": "registry.k8s.io/descheduler/descheduler"}},
        {"image": {**VALUES["image"], "repository": "a b"}},
        {"resources": {"limits": {"memory": -1}}},
        {"policy": {"profiles": [{"plugins": {"deschedule": {"enabled": ["PodLifeTime"]}}}]}},
        *(
            {"policy": {"profiles": [{"pluginConfig": [{"name": "PodLifeTime", "args": args}]}]}}
            for args in ARGS_OF_POD_LIFE_TIME
        ),
    ],
    ids=str,
)
def test_a_schema_that_says_what_to_write_accepts_what_it_accepted_before(value: Values) -> None:
    values = VALUES | value

    assert JsonSchema(schema()).accepts(values) == JsonSchema(values_schema()).accepts(values)
