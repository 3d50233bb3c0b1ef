"""Dashboards and alerts name metrics and labels that the code declares, and pages that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from tools.write_dashboards import DASHBOARDS, dashboards, metric, written
from tools.write_reference import declared_families

Json = dict[str, Any]  # a part of a dashboard, as Grafana reads it

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = ROOT / "docs" / "runbooks"
FOUND = dashboards()
FILES = written()
ALERTS = yaml.safe_load((DASHBOARDS.parent / "alerts.yaml").read_text(encoding="utf-8"))
RELEASE = ("cluster", "namespace", "job")
TARGET_LABELS = {*RELEASE, "instance"}
UPSTREAM_LABELS = {"namespace", "exported_namespace", "node", "result", "strategy"}
OF_PROCESSES = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}

each_dashboard = pytest.mark.parametrize("name", FOUND)


def panels(dashboard: Json) -> Iterator[Json]:
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def queries() -> Iterator[str]:
    for dashboard in FOUND.values():
        for panel in panels(dashboard):
            yield from (target["expr"] for target in panel["targets"])
        yield from (each["expr"] for each in dashboard["annotations"]["list"])
    for group in ALERTS["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


FAMILIES = {f"reactive_desched_{family.name}": family for family in declared_families()}


def labels_of(name: str) -> set[str]:
    """Return the labels that a metric has; raises KeyError when nothing declares it."""
    if name in OF_PROCESSES:
        return set(TARGET_LABELS)
    if name == "descheduler_pods_evicted_total":
        return UPSTREAM_LABELS | TARGET_LABELS
    family = FAMILIES[re.sub(r"_(total|bucket)$", "", name)]
    suffix = {"counter": "_total", "histogram": "_bucket"}.get(family.kind, "")
    assert name.endswith(suffix), f"{name} is a {family.kind}"
    return {*family.labels, *TARGET_LABELS}


def test_every_metric_and_label_that_a_query_matches_is_declared() -> None:
    selector = r"\b((?:reactive_desched|descheduler|process)_\w+)(?:\{([^}]*)\})?"
    for query in queries():
        selected = re.findall(selector, query)
        assert selected, query
        for name, matchers in selected:
            assert set(re.findall(r"(\w+)[!=]", matchers)) <= labels_of(name), query


def test_every_label_that_a_query_groups_by_is_one_of_its_metrics() -> None:
    for query in queries():
        names = re.findall(r"\b((?:reactive_desched|descheduler|process)_\w+)", query)
        made = re.findall(r', "(\w+)", "\$1"', query)  # by label_replace
        known = set.union(*map(labels_of, names)) | {"le", *made}
        groups = re.findall(r"\b(?:by|without|on|ignoring) \(([^)]*)\)", query)
        assert {label.strip() for group in groups for label in group.split(",")} <= known, query


def test_a_metric_that_is_gone_or_lacks_a_label_ends_the_writing() -> None:
    with pytest.raises(ValueError, match="no code declares the metric no_such"):
        metric("no_such")
    with pytest.raises(ValueError, match="outcomes has no label namespace"):
        metric("outcomes", 'namespace="a"')


def kept_by(query: str) -> set[str]:
    """Return the labels of what a query finds."""
    groups = re.findall(r"\bby \(([^)]*)\)", query)
    return {label for group in groups for label in group.split(", ")} or TARGET_LABELS


@each_dashboard
def test_every_legend_shows_labels_that_its_query_keeps(name: str) -> None:
    for panel in panels(FOUND[name]):
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            if panel["type"] != "table":  # which has a column for each label
                assert wanted <= kept_by(target["expr"]), panel["title"]


@each_dashboard
def test_no_panel_sums_over_clusters_namespaces_or_jobs(name: str) -> None:
    for panel in panels(FOUND[name]):
        for target in panel["targets"]:
            groups = re.findall(r"\b(?:by|on) \(([^)]*)\)", target["expr"])
            assert groups, panel["title"]
            assert all(set(RELEASE) <= set(group.split(", ")) for group in groups), panel["title"]
            assert not re.search(r"\b(sum|min|max|count|avg)\s*\(", target["expr"])


@each_dashboard
def test_legends_and_marks_say_which_cluster_namespace_and_job(name: str) -> None:
    marks = [each["titleFormat"] for each in FOUND[name]["annotations"]["list"]]
    legends = [
        target["legendFormat"] for panel in panels(FOUND[name]) for target in panel["targets"]
    ]

    for text in (*marks, *legends):
        assert text.startswith("{{cluster}} {{namespace}}/{{job}}")


@each_dashboard
def test_the_reader_chooses_cluster_namespace_and_job_each_among_what_is_chosen_before(
    name: str,
) -> None:
    variables = {each["name"]: each for each in FOUND[name]["templating"]["list"]}

    assert list(variables)[1:5] == [*RELEASE, "instance"]
    for place, label in enumerate((*RELEASE, "instance")):
        asked = variables[label]["definition"]
        assert set(re.findall(r"\$(\w+)", asked)) == set(RELEASE[:place])
        assert variables[label]["multi"]
        assert variables[label]["includeAll"]


@each_dashboard
def test_every_panel_says_what_to_do_and_has_a_unit(name: str) -> None:
    for panel in panels(FOUND[name]):
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert 'job=~"$job",instance=~"$instance"' in target["expr"]
            assert target["datasource"] == panel["datasource"]


@each_dashboard
def test_a_counter_is_never_shown_as_it_is(name: str) -> None:
    for panel in panels(FOUND[name]):
        for target in panel["targets"]:
            for counter in re.finditer(r"\w+_(?:total|bucket)\b\{[^}]*\}", target["expr"]):
                after = target["expr"][counter.end() :]
                assert re.match(r"\[\$__(rate_interval|range)\]| offset \$__range", after)


@each_dashboard
def test_every_runbook_that_a_panel_links_to_exists(name: str) -> None:
    linked = {link["url"] for panel in panels(FOUND[name]) for link in panel["links"]}

    assert linked
    for url in linked:
        alert = url.removeprefix("${docs}/runbooks/").removesuffix(".html")
        assert (RUNBOOKS / f"{alert}.md").is_file()


def test_every_alert_is_linked_from_a_panel() -> None:
    linked = {
        link["title"].removeprefix("Runbook: ")
        for found in FOUND.values()
        for panel in panels(found)
        for link in panel["links"]
    }

    assert linked == {rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]}


@each_dashboard
def test_no_two_panels_cover_the_same_place_and_none_leaves_the_page(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in FOUND[name]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_dashboards_have_names_of_their_own_that_stay() -> None:
    assert {found["uid"] for found in FOUND.values()} == {
        "reactive-desched-operator",
        "reactive-desched-owner",
    }
    assert not any("id" in found for found in FOUND.values()), "Grafana gives it"


@each_dashboard
def test_every_variable_that_a_dashboard_uses_is_defined_in_it(name: str) -> None:
    text = json.dumps({**FOUND[name], "templating": None})
    used = set(re.findall(r"\$\{?([a-z]\w*)", text))

    defined = [each["name"] for each in FOUND[name]["templating"]["list"]]
    assert used == set(defined)
    assert len(defined) == len(set(defined))
