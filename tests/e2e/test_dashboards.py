"""A real Prometheus scrapes a controller that evicts: every panel asks for what is there."""

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES
from reactive_desched.journal.events import read_events
from reactive_desched.policy.settings.guards import GuardName
from tests.e2e.conftest import do_without
from tests.e2e.test_alerts import promtool
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.limits import ANY_MOVES
from tests.support.prometheus import prometheus_of
from tests.support.simulator_process import TAINT_POLICY, simulator
from tools.real import prometheus
from tools.write_dashboards import dashboards

pytestmark = pytest.mark.real

Series = list[dict[str, Any]]  # of a vector, as Prometheus' HTTP API returns it

NODE = "node-1"
# Some pods wait for a token, for moments.
SETTINGS = (
    f"""
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 50ms}}
migration: {{}}
guards: {{disabled: [{", ".join(GuardName)}]}}
budgets:
  {{cluster: {{evictions: 120, per: 1m, burst: 2}}, zone: null, node: null, namespace: null,
   owner: null, plugin: null, warmUp: {{duration: 1s}}}}
"""
    + ANY_MOVES
)
CHOSEN = {
    "cluster": ".*",
    "namespace": ".*",
    "job": "desched",
    "instance": ".+",
    "pod_namespace": ".+",
    "__rate_interval": "10m",
    "__range": "1h",
}
WITHOUT_DATA = {
    "Left of schedules": "there is no schedule",
    "Nodes with measured use": "the policy does not go by it",
    "What kept the same workloads": "nothing keeps a workload after its first move",
}


def queries_by_title() -> dict[str, list[str]]:
    return {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for found in dashboards().values()
        for panel in found["panels"]
        if panel["type"] != "row"
    }


def with_choices(query: str, **chosen: str) -> str:
    """Return a query as Grafana sends it, of what a reader chose."""
    return re.sub(r"\$\{?([a-z_]\w*)\}?", lambda found: (CHOSEN | chosen)[found[1]], query)


class Asked:
    """A Prometheus that scrapes a controller, and the queries of panels by their titles."""

    def __init__(self, url: str, controller: ControllerProcess) -> None:
        self.controller = controller
        self._url = url
        self.panels = queries_by_title()

    def ask(self, query: str) -> Series:
        """Return what a query of a dashboard finds; raises AssertionError if it is none."""
        written = with_choices(query)
        asked = urllib.parse.urlencode({"query": written})
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query?{asked}") as answer:
                found: Series = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{written}: {error.read().decode()}") from error
        return found

    def panel(self, title: str, *labels: str) -> Mapping[tuple[str, ...], float]:
        """Return the numbers of a panel with one query, by some of their labels."""
        (query,) = self.panels[title]
        return {
            tuple(each["metric"].get(label, "") for label in labels): float(each["value"][1])
            for each in self.ask(query)
        }

    def without_data(self) -> set[str]:
        """Return the titles of panels that show nothing, or no number."""
        return {
            title
            for title, queries in self.panels.items()
            if all(
                each["value"][1] == "NaN"
                for query in queries
                for each in self.ask(query) or [{"value": (0, "NaN")}]
            )
        }

    def moved(self) -> float:
        """Return of how many moves a panel says what came of them."""
        return sum(self.panel("What came of moves", "plugin", "result", "helped").values())

    def evicted(self) -> list[Any]:
        """Return what the journal says of accepted evictions."""
        ended = [
            each.data
            for each in read_events(self.controller.journal)
            if each.type in EVICTION_OUTCOME_TYPES
        ]
        return [each for each in ended if each.outcome.result == "evicted"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A controller, scraped before it empties a tainted node and ends a job without a pod."""
    program = prometheus.find(os.environ) or do_without(["Prometheus"])
    folder = tmp_path_factory.mktemp("dashboards")
    with (
        simulator(folder, 60) as cluster,
        ControllerProcess(folder, cluster.kubeconfig, TAINT_POLICY, SETTINGS) as controller,
        prometheus_of(
            program, folder, controller.url.removeprefix("http://"), CHOSEN["job"]
        ) as url,
    ):
        found = Asked(url, controller)
        wait_until(
            lambda: found.panel("Controllers") == {(): 1}, within_s=60, what="a first scrape"
        )
        cluster.set_taints(NODE, "gpu")
        cluster.create_migration_job("without-a-pod", "no-such-pod")
        yield found


def assert_soon(look: Callable[[], object], expected: object) -> None:
    """Wait until `look` returns this: a scrape may come late, or fail on a busy machine."""
    try:
        wait_until(lambda: look() == expected, within_s=60, what="the panels' numbers")
    except TimeoutError:
        assert look() == expected


def test_the_panels_say_what_the_journal_says(asked: Asked) -> None:
    labels = {
        "Evicted pods": (),
        "By namespace": ("pod_namespace",),
        "By node": ("node",),
        "By plugin, result and reason": ("plugin", "result"),
        "Leaders": (),
        "Kinds not synced": (),
        "Journal can write": (),
    }

    def shown() -> dict[str, Mapping[tuple[str, ...], float]]:
        return {title: asked.panel(title, *names) for title, names in labels.items()}

    wait_until(lambda: asked.moved() == len(asked.evicted()) > 0, within_s=60, what="all moves")
    evicted = asked.evicted()
    namespaces = [each.who.namespace for each in evicted]
    expected = {
        "Evicted pods": {(): len(evicted)},
        "By namespace": {(name,): namespaces.count(name) for name in namespaces},
        "By node": {(NODE,): len(evicted)},
        "By plugin, result and reason": {
            ("RemovePodsViolatingNodeTaints", "evicted"): len(evicted)
        },
        "Leaders": {(): 1},
        "Kinds not synced": {(): 0},
        "Journal can write": {(): 1},
    }
    assert_soon(shown, expected)


def test_every_panel_has_data_when_there_is_some(asked: Asked) -> None:
    assert_soon(asked.without_data, WITHOUT_DATA.keys())


def test_every_annotation_is_a_query(asked: Asked) -> None:
    for found in dashboards().values():
        for each in found["annotations"]["list"]:
            asked.ask(each["expr"])


def test_the_metrics_are_named_as_prometheus_has_it(asked: Asked) -> None:
    ours = [
        line
        for line in asked.controller.page("/metrics").splitlines()
        if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith("reactive_desched_")
    ]

    assert ours
    promtool("check", "metrics", stdin="\n".join([*ours, ""]))


# By their cluster and namespace: two clusters, and two releases in one of them.
RELEASES = {
    "reactive_desched_leader": {"prod/rd": "0x9", "test/rd": "1x9", "test/two": "0x9"},
    "reactive_desched_journal_healthy": {"prod/rd": "1x9", "test/rd": "0x9", "test/two": "1x9"},
    'reactive_desched_reflector_synced{resource="pods"}': {
        "prod/rd": "1x9",
        "test/rd": "0x9",
        "test/two": "1x9",
    },
    'reactive_desched_outcomes_total{result="evicted"}': {
        "prod/rd": "7x9",
        "test/rd": "2x9",
        "test/two": "4x9",
    },
    "reactive_desched_policy_kept": {"prod/rd": "1x9", "test/rd": "0x9", "test/two": "0x9"},
    "reactive_desched_credentials_failing": {"prod/rd": "0x9", "test/rd": "1x9", "test/two": "0x9"},
    'descheduler_pods_evicted_total{result="success",exported_namespace="web",node="n"}': {
        "prod/rd": "7x9",
        "test/rd": "2x9",
        "test/two": "4x9",
    },
}


@pytest.mark.parametrize(
    ("title", "shown"),
    {
        "Leaders": {"prod/rd": 0, "test/rd": 1, "test/two": 0},
        "Journal can write": {"test/rd": 0},
        "Kinds not synced": {"prod/rd": 0, "test/rd": 1, "test/two": 0},
        "Policy in force is the one in the files": {"prod/rd": 0, "test/rd": 1, "test/two": 1},
        "Credentials": {"prod/rd": 0, "test/rd": 1, "test/two": 0},
        "Evicted pods": {"prod/rd": 7, "test/rd": 2, "test/two": 4},
        "By namespace": {"prod/rd": 7, "test/rd": 2, "test/two": 4},
        "By node": {"prod/rd": 7, "test/rd": 2, "test/two": 4},
    }.items(),
)
def test_what_is_wrong_in_one_release_is_not_hidden_by_another_with_the_same_addresses(
    tmp_path: Path, title: str, shown: dict[str, int]
) -> None:
    target = 'job="rd",instance="10.0.0.1:10258"'
    series = [
        {"series": written_with(name, f"{of_release(release)},{target}"), "values": values}
        for name, of_releases in RELEASES.items()
        for release, values in of_releases.items()
    ]
    further = {
        "By namespace": ',pod_namespace="web"',
        "By node": ',node="n"',
        "Credentials": ',instance="10.0.0.1:10258"',
    }.get(title, "")
    samples = [
        {"labels": f'{{{of_release(release)},job="rd"{further}}}', "value": value}
        for release, value in shown.items()
    ]
    (query,) = queries_by_title()[title]
    assert_finds(tmp_path, query, series, samples)


def test_a_kind_that_one_replica_lacks_is_not_hidden_by_a_replica_that_has_it(
    tmp_path: Path,
) -> None:
    name = 'reactive_desched_reflector_synced{job="rd",resource="pods",instance="%s"}'
    series = [
        {"series": name % "leader", "values": "0x9"},
        {"series": name % "standby", "values": "1x9"},
    ]
    (query,) = queries_by_title()["Kinds not synced"]
    assert_finds(tmp_path, query, series, [{"labels": '{job="rd"}', "value": 1}])


def test_a_scrape_that_honours_labels_has_no_namespace_of_the_release(tmp_path: Path) -> None:
    name = 'descheduler_pods_evicted_total{result="success",job="rd",instance="a",node="n"'
    series = [
        {"series": f'{name},namespace="web"}}', "values": "7x9"},
        {"series": f'{name},namespace="rd",exported_namespace="web"}}', "values": "2x9"},
    ]
    (query,) = queries_by_title()["By namespace"]
    samples = [
        {"labels": '{job="rd",pod_namespace="web"}', "value": 7},
        {"labels": '{job="rd",namespace="rd",pod_namespace="web"}', "value": 2},
    ]
    assert_finds(tmp_path, query, series, samples)


def assert_finds(
    folder: Path, query: str, series: list[dict[str, str]], samples: list[dict[str, object]]
) -> None:
    """Check what a panel's query finds in series, whatever a reader chose."""
    asked = {"expr": with_choices(query, job=".+"), "eval_time": "8m", "exp_samples": samples}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    path = folder / "test.yaml"
    path.write_text(json.dumps({"rule_files": [], "tests": [test]}))

    assert "SUCCESS" in promtool("test", "rules", str(path))


def of_release(release: str) -> str:
    """Return the labels of a cluster and a namespace in it."""
    cluster, _, namespace = release.partition("/")
    return f'cluster="{cluster}",namespace="{namespace}"'


def written_with(name: str, labels: str) -> str:
    """Return a series with more labels."""
    return f"{name[:-1]},{labels}}}" if name.endswith("}") else f"{name}{{{labels}}}"
