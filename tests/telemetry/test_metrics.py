import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from reactive_desched.telemetry.metrics import BUCKET_BOUNDS_S, Metrics


@dataclass
class Journal:
    records_written: int = 7
    records_refused: int = 2
    records_unrecorded: int = 5
    last_seq: int = 40
    torn_bytes: int = 13
    damaged_lines: int = 1
    checkpoint_size: int = 39
    checkpoint_root: str = "c0ffee012345" + "f" * 52
    healthy: bool = False


@dataclass
class Folder:
    bytes: int = 4096
    segments: int = 3
    oldest_seq: int = 12
    removed: int = 6
    faults: Mapping[str, int] = field(default_factory=lambda: {"compress": 2})


@dataclass
class Stream:
    clients: int = 2
    turned_away: int = 1
    cut: int = 3
    sent: int = 99
    resets: int = 4


@dataclass
class Reflector:
    synced: bool = True
    relists: int = 1
    reconnects: int = 2
    events: int = 3
    malformed: int = 4


def samples(metrics: Metrics) -> dict[str, float]:
    text = metrics.exposition("")[0].decode()
    lines = re.findall(r"^reactive_desched_(\S+?(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_what_happened_is_counted_under_its_labels() -> None:
    metrics = Metrics()
    for kind in ("PodBound", "PodBound", "NodeTaintsChanged"):
        metrics.count_change(kind)
    metrics.count_finding("PodLifeTime")
    metrics.count_decision("refuse", "fit")
    metrics.count_outcome("evicted", "PodLifeTime")

    found = samples(metrics)

    assert found['changes_total{change="PodBound"}'] == 2
    assert found['changes_total{change="NodeTaintsChanged"}'] == 1
    assert found['findings_total{plugin="PodLifeTime"}'] == 1
    assert found['decisions_total{decision="refuse",gate="fit"}'] == 1
    assert found['outcomes_total{plugin="PodLifeTime",result="evicted"}'] == 1


@pytest.mark.parametrize(
    ("record", "family"),
    [
        (Metrics.observe_decision_latency, "change_to_decision_seconds"),
        (Metrics.observe_eviction_latency, "change_to_eviction_seconds"),
        (Metrics.observe_loop_lag, "loop_lag_seconds"),
        (
            lambda metrics, seconds: metrics.observe_journal_write(5, seconds),
            "journal_fsync_seconds",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_duration_counts_in_every_bucket_it_fits_in(record, family) -> None:  # type: ignore[no-untyped-def]  # a method of Metrics, as parametrised
    metrics = Metrics()
    for seconds in (BUCKET_BOUNDS_S[0], 11e-6, 1000.0):
        record(metrics, seconds)

    found = samples(metrics)

    assert found[family + '_bucket{le="1e-05"}'] == 1
    assert found[family + '_bucket{le="2.5e-05"}'] == 2
    assert found[family + '_bucket{le="300.0"}'] == 2
    assert found[family + '_bucket{le="+Inf"}'] == 3
    assert found[family + "_count"] == 3
    assert found[family + "_sum"] == pytest.approx(1000.000021)


def test_what_the_parts_know_is_read_at_the_moment_of_the_scrape() -> None:
    metrics = Metrics()
    journal, pods, parked = Journal(), Reflector(), {"room": 1.0}
    metrics.sources.journal = journal
    metrics.sources.reflectors = {"pods": pods}
    metrics.sources.dirty_subjects = lambda: 12
    metrics.sources.blocked = lambda: parked
    metrics.sources.tokens = lambda: {"cluster": 0.5}
    before = samples(metrics)

    journal.healthy, pods.events, parked["disruption budget"] = True, 30, 9.0
    after = samples(metrics)

    assert before["journal_healthy"] == 0
    assert after["journal_healthy"] == 1
    assert before['reflector_events_total{resource="pods"}'] == 3
    assert after['reflector_events_total{resource="pods"}'] == 30
    assert after["dirty_subjects"] == 12
    assert after['parked{reason="room"}'] == 1
    assert after['parked{reason="disruption budget"}'] == 9
    assert after['tokens_available{scope="cluster"}'] == 0.5
    assert after["journal_records_total"] == 7
    assert after["journal_records_refused_total"] == 2
    assert after['reflector_synced{resource="pods"}'] == 1
    assert after['reflector_relists_total{resource="pods"}'] == 1
    assert after['reflector_reconnects_total{resource="pods"}'] == 2
    assert after['reflector_malformed_total{resource="pods"}'] == 4


def test_the_journal_its_folder_and_its_stream_are_told_in_numbers() -> None:
    metrics = Metrics()
    metrics.sources.journal = Journal()
    metrics.sources.journal_dir, metrics.sources.stream = Folder(), Stream()
    found = samples(metrics)

    told = {
        "journal_records_unrecorded_total": 5,
        "journal_sequence": 40,
        "journal_torn_bytes": 13,
        "journal_damaged_lines": 1,
        "journal_checkpoint_size": 39,
        "journal_checkpoint_root_prefix": 0xC0FFEE012345,
        "journal_bytes": 4096,
        "journal_segments": 3,
        "journal_oldest_sequence": 12,
        "journal_segments_removed_total": 6,
        'journal_upkeep_faults_total{what="compress"}': 2,
        "stream_clients": 2,
        "stream_clients_turned_away_total": 1,
        "stream_clients_cut_total": 3,
        "stream_events_sent_total": 99,
        "stream_resets_total": 4,
    }
    assert {name: found[name] for name in told} == told


def test_the_policy_in_force_is_the_only_one_shown() -> None:
    metrics = Metrics()
    metrics.policy_loaded("old", "11")
    metrics.policy_loaded("new", "22")

    shown = [name for name in samples(metrics) if name.startswith("policy_info")]

    assert shown == ['policy_info{digest="22",policy="new"}']


def test_two_controllers_in_one_process_share_no_numbers() -> None:
    first, second = Metrics(), Metrics()
    first.count_change("PodBound")

    assert 'changes_total{change="PodBound"}' not in samples(second)


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
    body, answered = Metrics().exposition(accept)

    assert answered.startswith(media_type)
    assert body.endswith(b"# EOF\n") == ("openmetrics" in media_type)


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.count_finding('odd"\n\\name')

    assert rb'plugin="odd\"\n\\name"' in metrics.exposition("")[0]


def test_reloads_are_counted_and_a_refusal_shows_until_the_files_are_good_again() -> None:
    metrics = Metrics()
    metrics.policy_loaded("policy.yaml", "one")
    before = samples(metrics)
    metrics.policy_rejected()
    refused = samples(metrics)
    metrics.policy_reloaded("policy.yaml", "two")
    taken = samples(metrics)

    ok, rejected = 'policy_reloads_total{result="ok"}', 'policy_reloads_total{result="rejected"}'
    assert [(s[ok], s[rejected], s["policy_kept"]) for s in (before, refused, taken)] == [
        (0, 0, 0),
        (0, 1, 1),
        (1, 1, 0),
    ]
    assert 'policy_info{digest="one",policy="policy.yaml"}' in refused
    assert 'policy_info{digest="two",policy="policy.yaml"}' in taken
    metrics.policy_rejected()
    metrics.policy_loaded("policy.yaml", "two")
    assert samples(metrics)["policy_kept"] == 0


def test_events_are_read_from_their_recorder() -> None:
    metrics = Metrics()
    metrics.sources.events = lambda: {"sent": 3, "dropped": 0}

    found = samples(metrics)
    assert (found['events_total{result="sent"}'], found['events_total{result="dropped"}']) == (3, 0)
