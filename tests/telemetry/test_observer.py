import re
from typing import Any

import pytest
from msgspec import structs

from reactive_desched.errors import Malformed
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.model.changes import (
    Change,
    NodeTaintsChanged,
    PodBound,
    PodGone,
    PodMetadataChanged,
)
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import ChangeTrigger, DecisionContext, Evaluation, Intent
from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import EndedMove, MoveEnd, MoveOrigin, MoveOwner
from reactive_desched.model.objects import Annotations, Pod, PodStatus
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DENIED,
    DRY_RUN,
    DRY_RUN_NOT_SENT,
    EVICTED,
    EVICTED_LATE,
    EVICTION_ACCEPTED,
    EVICTION_IN_BACKGROUND,
    FAILED,
    NOT_FOUND,
    PDB_REFUSED,
    RESULTS,
    SERVER_FAILED,
    TOO_MANY_REQUESTS,
    Outcome,
)
from reactive_desched.model.subjects import PodSubject
from reactive_desched.telemetry import sig_compat as upstream
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.telemetry.sig_compat import EXPIRES_S
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide
from tests.support.golden import Golden

WEB = pod("web", on="n1", namespace="shop")
FINDING = Finding(WEB, "NodeTaints", "does not tolerate gpu")
ABOUT = {"pod": "shop/web", "node": "n1", "plugin": "NodeTaints"}
NO_END = {"until": None, "setting": None}
WHY = {"finding": "does not tolerate gpu", "trigger": "NodeTaintsChanged node n1"}


class Log:
    """Keeps the lines with their levels."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def debug(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("debug", event, values))

    def info(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("info", event, values))

    def warning(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("warning", event, values))


class Bench:
    """A reporter, its log and its metrics."""

    def __init__(self) -> None:
        self.log, self.metrics, self.now = Log(), MetricsRegistry(), 60.0
        self.reporter = TelemetryObserver(self.metrics, self.log, lambda: self.now)

    def numbers(self) -> dict[str, float]:
        """Return every number that is not zero."""
        text = self.metrics.exposition("")[0].decode()
        lines = re.findall(r"^reactive_desched_(\S+?(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in lines if float(value)}

    def upstream(self) -> dict[str, int]:
        """Return the SIG descheduler's counts, by the value of `result`."""
        about = 'namespace="shop",node="n1",profile="default",result="(.+)",strategy="NodeTaints"'
        text = self.metrics.exposition("")[0].decode()
        found = re.findall(
            rf"^descheduler_pods_evicted_total{{{about}}} (\d+)$", text, re.MULTILINE
        )
        return {result: int(number) for result, number in found}


def judgement(decision: Decision, *, is_news: bool = True, decided_at: float = 10.5) -> Evaluation:
    cause = ChangeTrigger(NodeTaintsChanged("n1"), seen_at=10.0)
    return Evaluation("default", PodSubject("web"), decision, cause, decided_at, is_news)


@pytest.mark.parametrize(
    ("decision", "said", "more", "counted"),
    [
        pytest.param(
            Evict(FINDING),
            "decided to evict",
            {"reason": None},
            'decisions_total{decision="evict",gate="",reason=""}',
            id="evict",
        ),
        pytest.param(
            Defer(FINDING, "Rates", "RateLimited", "no token", 40.5, setting="budgets.node"),
            "deferred",
            {
                "gate": "Rates",
                "reason": "RateLimited",
                "message": "no token",
                "until": "1970-01-01T00:01:30Z",
                "setting": "budgets.node",
            },
            'decisions_total{decision="defer",gate="Rates",reason="RateLimited"}',
            id="defer",
        ),
        pytest.param(
            Refuse(FINDING, "MirrorPods", "MirrorPod", "a mirror pod"),
            "refused",
            {"gate": "MirrorPods", "reason": "MirrorPod", "message": "a mirror pod"} | NO_END,
            'decisions_total{decision="refuse",gate="MirrorPods",reason="MirrorPod"}',
            id="refuse",
        ),
    ],
)
def test_a_decision_is_counted_timed_and_logged_with_its_reason(
    decision: Decision, said: str, more: dict[str, str], counted: str
) -> None:
    bench = Bench()
    bench.reporter.on_decision(judgement(decision))

    assert bench.log.lines == [("info", said, ABOUT | WHY | more)]
    numbers = bench.numbers()
    assert numbers[counted] == 1
    assert numbers['findings_total{plugin="NodeTaints"}'] == 1
    assert numbers["change_to_decision_seconds_sum"] == 0.5
    assert "change_to_eviction_seconds_sum" not in numbers


def test_evictions_are_counted_from_zero_on_for_every_plugin_in_force() -> None:
    bench = Bench()
    bench.reporter.on_decision(judgement(Evict(FINDING)))
    bench.reporter.on_plugins({"NodeTaints", "PodLifeTime"})

    text = bench.metrics.exposition("")[0].decode()
    found = re.findall(
        r"^reactive_desched_((?:findings|outcomes|decisions)_total.*)$", text, re.MULTILINE
    )
    assert sorted(found) == [
        'decisions_total{decision="evict",gate="",reason=""} 1.0',
        'findings_total{plugin="NodeTaints"} 1.0',
        'findings_total{plugin="PodLifeTime"} 0.0',
        *(
            f'outcomes_total{{plugin="{plugin}",reason="{reason}",result="{result}"}} 0.0'
            for plugin in ("NodeTaints", "PodLifeTime")
            for result, reason in (("dry_run", "DryRun"), ("evicted", "EvictionAccepted"))
        ),
    ]


def test_what_repeats_the_last_decision_is_counted_and_only_whispered() -> None:
    bench = Bench()
    bench.reporter.on_decision(
        judgement(Refuse(FINDING, "MirrorPods", "MirrorPod", "no"), is_news=False)
    )

    assert [(level, event) for level, event, _ in bench.log.lines] == [("debug", "refused")]
    assert (
        bench.numbers()['decisions_total{decision="refuse",gate="MirrorPods",reason="MirrorPod"}']
        == 1
    )


def test_reasons_that_alternate_are_logged_once_each_in_an_hour() -> None:
    bench = Bench()
    rates = Defer(FINDING, "Rates", "RateLimited", "no token", 40.5)
    budget = Refuse(FINDING, "Budgets", "DisruptionBudget", "no disruption allowed")
    for at in range(0, 3600, 600):
        bench.reporter.on_decision(judgement(rates, decided_at=at))
        bench.reporter.on_decision(judgement(budget, decided_at=at + 300))

    loud = [values["reason"] for level, _, values in bench.log.lines if level == "info"]
    assert loud == ["RateLimited", "DisruptionBudget"]

    bench.reporter.on_decision(judgement(rates, decided_at=3600))
    assert bench.log.lines[-1][0] == "info"


def test_a_pod_that_was_evicted_is_forgotten_by_the_log() -> None:
    bench = Bench()
    rates = Defer(FINDING, "Rates", "RateLimited", "no token", 40.5)
    bench.reporter.on_decision(judgement(rates))
    bench.reporter.on_outcome(judgement(Evict(FINDING)), EVICTION_ACCEPTED.outcome(), 10.75)
    bench.reporter.on_decision(judgement(rates))

    assert [level for level, event, _ in bench.log.lines if event == "deferred"] == ["info", "info"]


def test_of_a_pod_that_was_evicted_the_log_keeps_nothing_that_other_plugins_found() -> None:
    bench = Bench()
    other = structs.replace(FINDING, plugin="NodeAffinity")
    moving = Defer(other, "InFlight", "EvictionInFlight", "it is leaving", 40.5)
    bench.reporter.on_decision(judgement(Evict(FINDING)))
    bench.reporter.on_decision(judgement(moving))
    assert len(bench.reporter._logged) == 1

    bench.reporter.on_outcome(judgement(Evict(FINDING)), SERVER_FAILED.outcome("500"), 10.75)
    bench.reporter.on_decision(judgement(moving))
    bench.reporter.on_outcome(judgement(Evict(FINDING)), EVICTION_ACCEPTED.outcome(), 10.75)

    assert [level for level, event, _ in bench.log.lines if event == "deferred"] == [
        "info",
        "debug",
    ]
    assert len(bench.reporter._logged) == 0


def test_a_line_begins_with_the_pod_its_node_the_plugin_and_the_reason() -> None:
    bench = Bench()
    bench.reporter.on_decision(judgement(Defer(FINDING, "Rates", "RateLimited", "no", 40.5)))

    [(_, _, values)] = bench.log.lines
    assert list(values)[:6] == ["pod", "node", "plugin", "reason", "until", "setting"]


@pytest.mark.parametrize(
    ("outcome", "said", "level"),
    [
        pytest.param(EVICTION_ACCEPTED.outcome(), "evicted", "info", id="evicted"),
        pytest.param(DRY_RUN_NOT_SENT.outcome(), "would be evicted", "info", id="dry run"),
        pytest.param(SERVER_FAILED.outcome("500: no"), "eviction failed", "warning", id="failed"),
    ],
)
def test_the_end_of_an_eviction_is_counted_timed_to_the_request_and_logged(
    outcome: Outcome, said: str, level: str
) -> None:
    bench = Bench()
    bench.reporter.on_outcome(judgement(Evict(FINDING)), outcome, 10.75)

    more = ABOUT | {"reason": outcome.reason, "message": outcome.message or None}
    assert bench.log.lines == [(level, said, more | {"change_to_eviction_s": 0.75})]
    numbers = bench.numbers()
    labels = f'plugin="NodeTaints",reason="{outcome.reason}",result="{outcome.result}"'
    assert numbers[f"outcomes_total{{{labels}}}"] == 1
    assert numbers["change_to_eviction_seconds_sum"] == 0.75


def test_a_request_whose_effect_is_not_known_is_a_warning_that_says_what_follows(
    golden: Golden,
) -> None:
    bench = Bench()
    intent = Intent(DecisionContext(FINDING, "default"))
    bench.reporter.on_effect_unknown(intent, "connection reset", 90.0)

    [(level, event, values)] = bench.log.lines
    assert (level, event) == ("warning", golden())
    assert values == ABOUT | {"message": golden("message")}


@pytest.mark.parametrize("result", sorted(RESULTS))
def test_the_log_says_how_an_eviction_ended_in_words(result: str) -> None:
    bench = Bench()
    bench.reporter.on_outcome(judgement(Evict(FINDING)), Outcome(result), 10.75)

    [(_, event, _)] = bench.log.lines
    assert "_" not in event
    assert event not in RESULTS - {EVICTED}


def test_what_was_synced_is_logged() -> None:
    bench = Bench()
    bench.reporter.on_initial_sync({"nodes": 2, "pods": 3})
    assert bench.log.lines == [("info", "the cluster is synced", {"nodes": 2, "pods": 3})]


def test_changes_are_counted_by_kind_and_not_logged() -> None:
    bench = Bench()
    bench.reporter.on_changes([PodBound(WEB), NodeTaintsChanged("n1"), PodBound(WEB)])

    assert bench.log.lines == []
    numbers = bench.numbers()
    assert numbers['changes_total{change="PodBound"}'] == 2
    assert numbers['changes_total{change="NodeTaintsChanged"}'] == 1


def test_a_short_suspension_is_a_debug_line() -> None:
    bench = Bench()
    bench.reporter.on_pause("sync/nodes: reset")
    bench.reporter.on_pause("")

    assert bench.log.lines == [
        ("debug", "evictions are paused", {"message": "sync/nodes: reset"}),
        ("debug", "evictions are resumed", {}),
    ]


def test_an_object_that_cannot_be_read_is_a_warning_that_names_it(golden: Golden) -> None:
    bench = Bench()
    bench.reporter.on_malformed("pods", Malformed("Pod", "shop/web", "spec is no object"))

    [(level, event, values)] = bench.log.lines
    assert (level, event) == ("warning", "skipped an object")
    assert values == {
        "resource": "pods",
        "message": golden(),
    }


@pytest.mark.parametrize(
    ("result", "counted"),
    [
        (EVICTED, {"success": 1}),
        (DRY_RUN, {"success": 1}),
        (PDB_REFUSED, {"error": 1}),
        (TOO_MANY_REQUESTS, {"error": 1}),
        (NOT_FOUND, {"error": 1}),
        (CONFLICT, {"error": 1}),
        (DENIED, {"error": 1}),
        (FAILED, {"error": 1}),
        (CANCELLED, {}),
    ],
)
def test_an_end_counts_as_the_sig_descheduler_would_count_it(
    result: str, counted: dict[str, int]
) -> None:
    bench = Bench()
    bench.reporter.on_outcome(judgement(Evict(FINDING)), Outcome(result), 10.75)

    assert bench.upstream() == counted


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        pytest.param(None, "MigrationJobs", id="no job"),
        pytest.param(EvictionOptions(), "MigrationJobs", id="a job without a trigger"),
        pytest.param(EvictionOptions(initiator="LowNodeLoad"), "LowNodeLoad", id="koordinator's"),
        pytest.param(EvictionOptions(initiator="x" * 999), "x" * 253, id="a long one is cut"),
    ],
)
def test_the_eviction_of_a_job_counts_under_its_trigger_as_koordinator_counts_it(
    options: EvictionOptions | None, strategy: str
) -> None:
    bench = Bench()
    finding = Finding(WEB, "MigrationJobs", "asks for it", options=options)
    bench.reporter.on_outcome(judgement(Evict(finding)), EVICTION_ACCEPTED.outcome(), 10.75)

    text = bench.metrics.exposition("")[0].decode()
    found = re.findall(
        r'^descheduler_pods_evicted_total{.*strategy="(\w+)"} 1$', text, re.MULTILINE
    )
    assert found == [strategy]
    assert 'outcomes_total{plugin="MigrationJobs"' in text, "our own metric has the plugin"


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("cluster", upstream.TOTAL_REACHED),
        ("node", upstream.NODE_REACHED),
        ("namespace", upstream.NAMESPACE_REACHED),
    ],
)
@pytest.mark.parametrize("limit", [0, 1])
def test_a_limit_of_the_policy_counts_under_the_sig_deschedulers_words(
    scope: str, limit: int, text: str
) -> None:
    windows = PolicyLimits({scope: limit})
    decide(windows, Finding(WEB, "Test", "why"))
    refusal = windows.check(FINDING, 0)
    assert refusal is not None
    bench = Bench()
    bench.reporter.on_decision(judgement(refusal))

    assert bench.upstream() == {text: 1}


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(Evict(FINDING), id="not asked for yet"),
        pytest.param(Refuse(FINDING, "MirrorPods", "MirrorPod", "no"), id="a pod filter"),
        pytest.param(
            Defer(FINDING, "Rates", "RateLimited", "limit of node n1", 9.0), id="a rate limit"
        ),
    ],
)
def test_no_other_decision_counts_as_an_eviction(decision: Decision) -> None:
    bench = Bench()
    bench.reporter.on_decision(judgement(decision))

    assert bench.upstream() == {}


IN_BACKGROUND = EVICTION_IN_BACKGROUND.outcome("Eviction triggered evacuation")
ASKED = structs.replace(WEB, annotations=Annotations(request_evict_only=""))
MOVING = structs.replace(
    WEB, annotations=Annotations(request_evict_only="", eviction_in_progress="")
)


def phase(name: str) -> Pod:
    return structs.replace(MOVING, status=PodStatus(name))


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        pytest.param([], {"background": 1}, id="it has begun"),
        pytest.param([PodMetadataChanged(MOVING)], {"background": 1}, id="another program says so"),
        pytest.param([PodGone(MOVING)], {"background": 1, "success": 1}, id="the pod is deleted"),
        pytest.param(
            [PodGone(phase("Succeeded"))], {"background": 1, "success": 1}, id="it succeeded"
        ),
        pytest.param([PodGone(phase("Failed"))], {"background": 1, "error": 1}, id="it failed"),
        pytest.param(
            [PodMetadataChanged(MOVING), PodMetadataChanged(ASKED), PodGone(ASKED)],
            {"background": 1},
            id="the program gave up, and the pod left for another reason",
        ),
        pytest.param(
            [PodMetadataChanged(WEB), PodGone(WEB)],
            {"background": 1},
            id="it asks for no such eviction any more",
        ),
        pytest.param([PodGone(pod("other"))], {"background": 1}, id="another pod is deleted"),
    ],
)
def test_an_eviction_in_the_background_counts_once_begun_and_once_ended(
    changes: list[Change], counted: dict[str, int]
) -> None:
    bench = Bench()
    for _ in range(2):
        bench.reporter.on_outcome(
            judgement(Evict(Finding(ASKED, "NodeTaints", "m"))), IN_BACKGROUND, 10.0
        )
    for change in changes:
        bench.reporter.on_changes([change])
        bench.reporter.on_changes([change])

    assert bench.upstream() == counted


def test_an_eviction_in_the_background_that_takes_more_than_ten_minutes_is_an_error() -> None:
    bench = Bench()
    bench.reporter.on_outcome(
        judgement(Evict(Finding(ASKED, "NodeTaints", "m"))), IN_BACKGROUND, 10.0
    )
    bench.now = 60.0 + EXPIRES_S
    bench.reporter.on_changes([PodBound(pod("other"))])
    assert bench.upstream() == {"background": 1}
    bench.now += 1
    bench.reporter.on_changes([PodBound(pod("other"))])
    bench.reporter.on_changes([PodGone(MOVING)])

    assert bench.upstream() == {"background": 1, "error": 1}


def test_a_pod_that_has_ended_is_not_evicted_in_the_background() -> None:
    bench = Bench()
    done = structs.replace(ASKED, status=PodStatus("Succeeded"))
    bench.reporter.on_outcome(
        judgement(Evict(Finding(done, "NodeTaints", "m"))), IN_BACKGROUND, 10.0
    )

    assert bench.upstream() == {}


def test_what_others_do_to_pods_is_counted_by_cause_and_a_correction_is_a_warning() -> None:
    bench = Bench()
    bench.reporter.on_disruption(EndedPod(WEB, "PreemptionByScheduler", "for another"))
    past = PastEviction("r", 0, "u", "shop", "web", "n1", plugin="NodeTaints", result="failed")
    bench.reporter.on_correction(past, EVICTED_LATE.outcome("later"))

    assert bench.numbers()['disruptions_total{cause="PreemptionByScheduler"}'] == 1
    corrected = 'outcomes_corrected_total{reason="EvictedLater",result="unknown"}'
    assert bench.numbers()[corrected] == 1
    (quiet, _, about), (loud, _, said) = bench.log.lines
    assert (quiet, about["cause"]) == ("debug", "PreemptionByScheduler")
    assert (loud, said["before"], said["result"]) == ("warning", "failed", "unknown")


@pytest.mark.parametrize(
    ("end", "level"),
    [
        pytest.param(MoveEnd("moved", finding_holds=False), "info", id="it helped"),
        pytest.param(MoveEnd("moved", finding_holds=True), "warning", id="it did not help"),
        pytest.param(MoveEnd("unscheduled"), "warning", id="the replacement has no node"),
        pytest.param(MoveEnd("not_replaced"), "warning", id="a pod is missing"),
        pytest.param(MoveEnd("not_replaced", is_expected=True), "info", id="none was to come"),
        pytest.param(MoveEnd("owner_gone", is_expected=True), "info", id="the owner was deleted"),
        pytest.param(MoveEnd("moved"), "info", id="the plugin is not in force any more"),
    ],
)
def test_a_move_is_a_warning_where_a_person_should_look(end: MoveEnd, level: str) -> None:
    bench = Bench()
    origin = MoveOrigin(
        "u", "web-1", "n1", "h", "P", MoveOwner("shop", "Deployment", "web", "o"), 0.0
    )

    bench.reporter.on_move_ended(EndedMove("r", origin, end))

    assert [each for each, *_ in bench.log.lines] == [level]
