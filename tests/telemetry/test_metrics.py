from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from reactive_desched.telemetry.metrics import (
    BUCKET_BOUNDS_S,
    Histogram,
    Metric,
    counter,
    gauge,
    histogram,
)
from reactive_desched.telemetry.registry import MetricsRegistry
from tests.support.exposition import exposed, samples_of
from tools.write_reference import declared_families

EVENTS = counter("events", "Watch events.", "resource")
SYNCED = gauge("synced", "1 while complete.", "resource")
TOKENS = gauge("tokens", "Tokens by scope and name.", "scope", "name")
SECONDS = histogram("took_seconds", "Durations.")


@dataclass
class Watch:
    """A component that counts, as there are several of a kind."""

    resource: str
    events: int = 3
    is_synced: bool = False

    def collect(self) -> Iterator[Metric]:
        yield EVENTS.value(self.events, self.resource)
        yield SYNCED.value(self.is_synced, self.resource)


@dataclass
class Timed:
    took: Histogram = field(default_factory=Histogram)

    def collect(self) -> Iterator[Metric]:
        yield SECONDS.value(self.took)


def test_components_of_a_kind_share_a_family_and_differ_by_label() -> None:
    registry = MetricsRegistry()
    registry.register(Watch("pods"), Watch("nodes", is_synced=True))

    found = samples_of(registry)
    text = registry.exposition("")[0].decode()

    assert found['events_total{resource="pods"}'] == 3
    assert found['synced{resource="pods"}'] == 0
    assert found['synced{resource="nodes"}'] == 1
    assert text.count("# HELP reactive_desched_events_total ") == 1


def test_a_component_is_read_at_the_moment_of_the_scrape() -> None:
    registry, watch = MetricsRegistry(), Watch("pods")
    registry.register(watch)
    before = samples_of(registry)
    watch.events = 30

    after = samples_of(registry)

    assert before['events_total{resource="pods"}'] == 3
    assert after['events_total{resource="pods"}'] == 30


def test_several_samples_come_by_one_label_or_by_several() -> None:
    class Scopes:
        def collect(self) -> Iterator[Metric]:
            yield SYNCED.by_label({"pods": 1, "nodes": 0})
            yield TOKENS.by_labels({("node", "n1"): 0.5, ("cluster", ""): 2})

    found = exposed(Scopes())

    assert found['synced{resource="pods"}'] == 1
    assert found['tokens{name="n1",scope="node"}'] == 0.5
    assert found['tokens{name="",scope="cluster"}'] == 2


def test_a_family_without_samples_shows_that_it_exists() -> None:
    registry = MetricsRegistry()

    class Idle:
        def collect(self) -> Iterator[Metric]:
            yield SYNCED.by_label({})

    registry.register(Idle())

    assert b"# TYPE reactive_desched_synced gauge" in registry.exposition("")[0]


def test_a_duration_counts_in_every_bucket_it_fits_in() -> None:
    timed = Timed()
    for seconds in (BUCKET_BOUNDS_S[0], 11e-6, 1000.0):
        timed.took.observe(seconds)

    found = exposed(timed)

    assert found['took_seconds_bucket{le="1e-05"}'] == 1
    assert found['took_seconds_bucket{le="2.5e-05"}'] == 2
    assert found['took_seconds_bucket{le="300.0"}'] == 2
    assert found['took_seconds_bucket{le="+Inf"}'] == 3
    assert found["took_seconds_count"] == 3
    assert found["took_seconds_sum"] == pytest.approx(1000.000021)


def test_two_controllers_in_one_process_share_no_numbers() -> None:
    first, second = MetricsRegistry(), MetricsRegistry()
    first.register(Watch("pods"))

    assert 'events_total{resource="pods"}' not in samples_of(second)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        pytest.param("", "text/plain; version=0.0.4", id="nothing asked"),
        pytest.param("text/html", "text/plain; version=0.0.4", id="a browser"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            "application/openmetrics-text; version=1.0.0",
            id="Prometheus",
        ),
        pytest.param("text/plain;version=x", "text/plain; version=0.0.4", id="a senseless version"),
        pytest.param(",;=,", "text/plain; version=0.0.4", id="not a header at all"),
    ],
)
def test_the_format_is_the_one_asked_for(accept: str, media_type: str) -> None:
    body, answered = MetricsRegistry().exposition(accept)

    assert answered.startswith(media_type)
    assert body.endswith(b"# EOF\n") == ("openmetrics" in media_type)


def test_label_values_are_escaped() -> None:
    registry = MetricsRegistry()
    registry.register(Watch('odd"\n\\name'))

    assert rb'resource="odd\"\n\\name"' in registry.exposition("")[0]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_is_a_metric(*, dry_run: bool) -> None:
    assert samples_of(MetricsRegistry(dry_run=dry_run))["dry_run"] == dry_run


def test_no_two_families_share_a_name() -> None:
    names = [family.name for family in declared_families()]

    assert len(names) == len(set(names))
