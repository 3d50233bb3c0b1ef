"""The names, labels and values that dashboards of the SIG descheduler ask for."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from reactive_desched._version import __version__
from reactive_desched.telemetry import sig_compat as upstream
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.telemetry.sig_compat import FAMILIES, UpstreamMetrics
from reactive_desched.testing.builders import pod
from reactive_desched.web.health import EventLoopPulse, Heartbeat
from tests.support.golden import verbatim

ROOT = Path(__file__).parents[2]
WEB = pod("web", on="n1", namespace="shop")
ACCEPT = {
    "plain": "text/plain;version=0.0.4",
    "OpenMetrics": "application/openmetrics-text;version=1.0.0",
}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def served(metrics: MetricsRegistry, how: str) -> str:
    return metrics.exposition(ACCEPT[how])[0].decode()


def samples(text: str) -> Samples:
    """Return every sample that is not a bucket, by name and labels."""
    lines = re.findall(r"^(descheduler_\w+)(?:{(.*)})? (\S+)$", text, re.MULTILINE)
    return {
        (name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))): float(value)
        for name, labels, value in lines
        if not name.endswith("_bucket")
    }


def families(metrics: MetricsRegistry, how: str) -> list[Metric]:
    """Read what is served with a library that knows the format."""
    read = read_openmetrics if how == "OpenMetrics" else read_plain
    return list(read(served(metrics, how)))


def labelled(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.mark.parametrize("how", ACCEPT)
def test_an_eviction_counts_under_both_names_with_the_labels_of_the_sig_descheduler(
    how: str,
) -> None:
    metrics = MetricsRegistry(old_names=True)
    for _ in range(2):
        metrics.upstream.count_eviction("default", "PodLifeTime", WEB, upstream.SUCCESS)
    metrics.upstream.count_eviction("default", "PodLifeTime", WEB, upstream.ERROR)

    found = samples(served(metrics, how))

    about = {"namespace": "shop", "node": "n1", "profile": "default", "strategy": "PodLifeTime"}
    for name in ("descheduler_pods_evicted_total", "descheduler_pods_evicted"):
        assert found[labelled(name, result="success", **about)] == 2
        assert found[labelled(name, result="error", **about)] == 1


@pytest.mark.parametrize("how", ACCEPT)
def test_sweeps_and_their_plugins_are_timed_under_both_names(how: str) -> None:
    metrics = MetricsRegistry(old_names=True)
    metrics.upstream.observe_cycle(0.25)
    metrics.upstream.observe_cycle(700.0)
    metrics.upstream.observe_plugin("default", "PodLifeTime", 0.5)

    found = samples(served(metrics, how))

    one = {"profile": "default", "strategy": "PodLifeTime"}
    for name in ("descheduler_", "descheduler_descheduler_"):
        assert found[labelled(name + "loop_duration_seconds_count")] == 2
        assert found[labelled(name + "loop_duration_seconds_sum")] == 700.25
        assert found[labelled(name + "strategy_duration_seconds_count", **one)] == 1
        assert found[labelled(name + "strategy_duration_seconds_sum", **one)] == 0.5


@pytest.mark.parametrize(
    ("time", "name", "labels", "bounds"),
    [
        pytest.param(
            lambda it: it.observe_cycle(0.25),
            "loop",
            "",
            "0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 25 50 100 250 500 +Inf",
            id="a sweep",
        ),
        pytest.param(
            lambda it: it.observe_plugin("p", "s", 0.25),
            "strategy",
            'profile="p",strategy="s",',
            "0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 25 50 100 +Inf",
            id="a plugin",
        ),
    ],
)
def test_the_buckets_are_those_of_the_sig_descheduler_written_as_it_writes_them(
    time: Callable[[UpstreamMetrics], None], name: str, labels: str, bounds: str
) -> None:
    metrics = UpstreamMetrics()
    time(metrics)
    start = f"descheduler_{name}_duration_seconds_bucket"
    lines = [line for line in metrics.render().splitlines() if line.startswith(start)]

    expected = [(bound, bound == "+Inf" or float(bound) >= 0.25) for bound in bounds.split()]
    assert lines == [f'{start}{{{labels}le="{le}"}} {within:d}' for le, within in expected]


@pytest.mark.parametrize(
    ("how", "counter"), [("plain", "counter"), ("OpenMetrics", "unknown")], ids=ACCEPT
)
def test_the_kinds_are_those_that_a_format_can_say(how: str, counter: str) -> None:
    text = served(MetricsRegistry(old_names=True), how)
    told = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))

    for name, kind, _ in FAMILIES:
        assert told[name] == (counter if kind == "counter" else kind)


def test_the_build_is_ours_and_its_value_is_one() -> None:
    found = samples(served(MetricsRegistry(), "plain"))
    version = {"AppVersion": __version__, "DeschedulerVersion": f"reactive-desched-{__version__}"}

    assert found[labelled("descheduler_build_info", **version)] == 1


@pytest.mark.parametrize("how", ACCEPT)
def test_our_own_metrics_stand_beside_them(how: str) -> None:
    metrics = MetricsRegistry()
    metrics.register(EventLoopPulse(Heartbeat(1, lambda: 0)))

    names = {family.name for family in families(metrics, how)}

    assert "reactive_desched_loop_lag_seconds" in names
    assert "descheduler_loop_duration_seconds" in names


def test_the_texts_of_the_limits_are_the_sig_deschedulers() -> None:
    assert {upstream.TOTAL_REACHED, upstream.NODE_REACHED, upstream.NAMESPACE_REACHED} == {
        verbatim("maximum number of evicted pods per a descheduling cycle reached"),
        verbatim("maximum number of evicted pods per node reached"),
        verbatim("maximum number of evicted pods per namespace reached"),
    }


@pytest.mark.parametrize("how", ACCEPT)
def test_label_values_are_escaped(how: str) -> None:
    metrics = MetricsRegistry()
    metrics.upstream.count_eviction('odd"\n\\name', "P", WEB, "success")
    metrics.upstream.observe_plugin('odd"\n\\name', "P", 1)

    profiles = {
        sample.labels["profile"]
        for family in families(metrics, how)
        for sample in family.samples
        if "profile" in sample.labels
    }
    assert profiles == {'odd"\n\\name'}


@pytest.mark.parametrize("how", ACCEPT)
def test_without_the_old_names_every_number_is_served_once(how: str) -> None:
    metrics = MetricsRegistry()
    metrics.upstream.count_eviction("default", "PodLifeTime", WEB, upstream.SUCCESS)
    metrics.upstream.observe_cycle(0.25)
    metrics.upstream.observe_plugin("default", "PodLifeTime", 0.5)

    served_names = {
        sample.name
        for family in families(metrics, how)
        for sample in family.samples
        if sample.name.startswith("descheduler_")
        and not sample.name.endswith(("_bucket", "_sum", "_count"))
    }
    text = served(metrics, how)

    assert served_names == {"descheduler_pods_evicted_total", "descheduler_build_info"}
    assert "descheduler_descheduler_" not in text
    assert (
        "TYPE descheduler_pods_evicted" + ("_total" if how == "plain" else "") + " counter" in text
    )


class Clock:
    """Monotonic seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def evicted(metrics: UpstreamMetrics) -> dict[str, str]:
    """Return the series of evictions: the values by the name of their node."""
    found = re.findall(
        r"^descheduler_pods_evicted_total{(.*)} (\d+)$", metrics.render(), re.MULTILINE
    )
    return {re.findall(r'node="([^"]*)"', labels)[0]: value for labels, value in found}


def test_beyond_the_bound_evictions_count_for_other_nodes_together_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "MAX_SERIES", 2)
    metrics = UpstreamMetrics(clock=Clock())
    for name in ("n1", "n2", "n3", "n4", "n1"):
        metrics.count_eviction("p", "s", pod("p", on=name), "success")

    assert evicted(metrics) == {"n1": "2", "n2": "1", upstream.OTHER: "2"}
    assert f'namespace="{upstream.OTHER}",node="{upstream.OTHER}"' in metrics.render()


def test_at_the_bound_the_series_counted_longest_ago_goes_once_nothing_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "MAX_SERIES", 2)
    clock = Clock()
    metrics = UpstreamMetrics(clock=clock)
    for name in ("n1", "n2"):
        metrics.count_eviction("p", "s", pod("p", on=name), "success")
    clock.now = upstream.KEPT_S
    metrics.count_eviction("p", "s", pod("p", on="n1"), "success")
    metrics.count_eviction("p", "s", pod("p", on="n3"), "success")

    assert evicted(metrics) == {"n1": "2", "n3": "1"}


def test_whatever_jobs_name_as_their_strategy_the_series_of_others_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "MAX_SERIES", 1)
    monkeypatch.setattr(upstream, "MAX_OTHER", 2)
    metrics = UpstreamMetrics(clock=Clock())
    for number in range(6):
        metrics.count_eviction("p", f"s{number}", WEB, "success")

    strategies = re.findall(
        r'^descheduler_pods_evicted_total{.*strategy="(.*)"} (\d+)$', metrics.render(), re.MULTILINE
    )
    assert strategies == [("s0", "1"), ("s1", "1"), ("s2", "1"), (upstream.OTHER, "3")]


def test_what_is_rendered_in_parts_is_of_one_moment_and_no_part_is_long() -> None:
    metrics = UpstreamMetrics(old_names=True)
    for number in range(3 * upstream.LINES_AT_ONCE):
        metrics.count_eviction("p", "s", pod("p", on=f"n{number}"), "success")
    metrics.observe_plugin("p", "s", 1)
    expected = metrics.render()

    parts = []
    for part in metrics.parts():
        metrics.count_eviction("p", "s", pod("p", on="n1"), "success")
        metrics.count_eviction("p", "s", pod("p", on="new"), "success")
        metrics.observe_cycle(1)
        metrics.observe_plugin("p", "s", 1)
        parts.append(part)

    assert "".join(parts) == expected
    assert max(part.count("\n") for part in parts) == upstream.LINES_AT_ONCE


def test_the_migration_page_has_every_metric_with_its_labels_and_results() -> None:
    metrics = UpstreamMetrics(old_names=True)
    metrics.count_eviction("default", "PodLifeTime", WEB, upstream.SUCCESS)
    metrics.observe_plugin("default", "PodLifeTime", 1)
    found = re.findall(r"^(descheduler_\w+){(.*)}", metrics.render(), re.MULTILINE)
    labels = {name.removesuffix("_sum"): re.findall(r'(\w+)="', text) for name, text in found}
    page = (ROOT / "docs" / "reference" / "sig-descheduler.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(descheduler_\w+)` \| (.*) \| (.*) \|$", page, re.MULTILINE)

    assert [(name, text) for name, _, text in rows] == [(it.name, it.help) for it in FAMILIES]
    for name, told, _ in rows:
        assert sorted(re.findall(r"`(\w+)`", told)) == sorted(labels.get(name, []))
    for limit in (upstream.TOTAL_REACHED, upstream.NODE_REACHED, upstream.NAMESPACE_REACHED):
        assert f"`{limit}`" in page


def test_koordinators_metric_has_its_name_and_labels_and_the_page_says_what_is_added() -> None:
    metrics = UpstreamMetrics(old_names=True)
    metrics.count_eviction("default", "LowNodeLoad", WEB, upstream.SUCCESS)
    (labels,) = re.findall(r"^descheduler_pods_evicted{(.*)} 1$", metrics.render(), re.MULTILINE)
    page = (ROOT / "docs" / "howto" / "from-koordinator.md").read_text(encoding="utf-8")
    row = r"^\| `(descheduler_\w+)` \| (.*) \| (.*) \|$"
    ((name, told, here),) = re.findall(row, page, re.MULTILINE)

    added = set(re.findall(r'(\w+)="', labels)) - set(re.findall(r"`(\w+)`", told))
    assert name == "descheduler_pods_evicted"
    assert re.findall(r"`(\w+)`", told) == ["result", "strategy", "namespace", "node"]
    assert added == {"profile"} < set(re.findall(r"`(\w+)`", here))
    assert f"to {upstream.MAX_STRATEGY} characters" in page
