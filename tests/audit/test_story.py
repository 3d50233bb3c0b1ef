import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api import event as api
from reactive_desched.audit.id_resolver import resolve_decision
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.story import MAX_EVENTS, build_story
from reactive_desched.audit.story_text import story_lines
from reactive_desched.errors import ConfigError
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model.event_types import full_type
from reactive_desched.text.layout import TextLayout
from tests.support.golden import Golden
from tests.support.journals import SOURCE, STARTED_AT, correlation_of, write_journal

WEB = api.Who(
    name="web-1",
    namespace="shop",
    node="n1",
    owners=(
        api.Owner(api_version="apps/v1", kind="ReplicaSet", name="web-6d4", uid="rs"),
        api.Owner(api_version="apps/v1", kind="Deployment", name="web", uid="dep"),
    ),
    uid="pod-uid-of-web",
    zone="north",
)
DB = api.Who(name="db-0", namespace="shop", node="n2", owners=(), uid="pod-uid-of-db", zone="")


@dataclass
class Telling:
    """Makes the events of cases, each a second after the one before unless it says otherwise."""

    events: list[AnyEvent] = field(default_factory=list)
    mode: str = api.MODE_LIVE
    at_s: float = 0.0
    version: str = "4711"
    change: str = "NodeTaintsChanged"
    changed: str = "node n1"
    numbers: dict[str, int | str] = field(
        default_factory=lambda: {"taints": 1, "effect": "NoSchedule"}
    )

    def about(self, who: api.Who) -> dict[str, Any]:  # the fields of `api.PodData`
        return {
            "mode": self.mode,
            "trigger": api.Cause(
                change=self.change, object=self.changed, resource_version=self.version
            ),
            "what": api.What(action="evict", grace_period_seconds=30),
            "who": who,
            "why": api.Why(
                message="does not tolerate gpu=true:NoSchedule on n1",
                numbers=self.numbers,
                plugin="RemovePodsViolatingNodeTaints",
                policy_revision="3f9a1c07",
                profile="default",
            ),
        }

    def add(
        self,
        case: str,
        id_: str,
        type_: str,
        data: api.EventData,
        *,
        cause: str = "",
        after_s: float = 1,
    ) -> "Telling":
        self.at_s += after_s
        who = data.pod
        story = correlation_of(who, case) if who else Correlation("epoch", "journal", "epoch")
        time = STARTED_AT + timedelta(seconds=self.at_s)
        self.events.append(
            build_event(SOURCE, type_, story, time, data, id_=id_, causation_id=cause)
        )
        return self

    def finding(self, case: str, who: api.Who = WEB) -> "Telling":
        data = api.FindingMade(**self.about(who))
        return self.add(case, f"{case}.finding", api.FINDING_MADE, data)

    def verdict(
        self,
        case: str,
        verdict: str,
        gate: str = "",
        message: str = "",
        *,
        who: api.Who = WEB,
        number: int = 1,
        after_s: float = 1,
    ) -> "Telling":
        said = api.Verdict(verdict=verdict, gate=gate, message=message)
        data = api.DecisionMade(decision=said, **self.about(who))
        type_ = full_type(f"decision.{verdict}")
        return self.add(case, f"{case}.decision.{number}", type_, data, after_s=after_s)

    def request(self, case: str) -> "Telling":
        data = api.EvictionRequested(attempt=1, **self.about(WEB))
        return self.add(case, f"{case}.requested.1", api.EVICTION_REQUESTED, data)

    def ended(
        self, case: str, type_: str, result: str, message: str = "", took_ms: int | None = 47
    ) -> "Telling":
        outcome = api.Ending(result=result, message=message, took_ms=took_ms)
        data = api.EvictionEnded(attempt=1, outcome=outcome, **self.about(WEB))
        return self.add(case, f"{case}.ended.1", type_, data, cause=f"{case}.requested.1")

    def policy(self, revision: str, cluster: str = "", text: str = "") -> "Telling":
        file = api.PolicyFile(name="/etc/policy.yaml", sha256=revision * 6, text=text)
        data = api.PolicyLoaded(
            cluster=cluster,
            files=(file,) if cluster else (),
            mode=api.MODE_LIVE,
            revision=revision,
            source="/etc/policy.yaml",
            version="0.5.0",
        )
        return self.add("", f"policy-{revision}", api.POLICY_LOADED, data)

    def brake(self, scope: str) -> "Telling":
        about: dict[str, Any] = {"brake": "manual", "message": "m", "mode": "live", "scope": scope}
        engaged = api.BrakeEngaged(**about)
        self.add("", f"engaged-{scope}", api.BRAKE_ENGAGED, engaged)
        released = api.BrakeReleased(by="ann", **about)
        return self.add("", f"released-{scope}", api.BRAKE_RELEASED, released)

    def corrected(self, case: str) -> "Telling":
        outcome = api.Ending(result="unknown", reason="EvictedLater", message="later")
        data = api.EvictionCorrected(
            attempt=1, corrects=f"{case}.ended.1", outcome=outcome, **self.about(WEB)
        )
        return self.add(case, f"{case}.corrected.1", api.EVICTION_CORRECTED, data, after_s=300)

    def taken(self, case: str, who: api.Who = WEB) -> "Telling":
        data = api.DisruptionObserved(cause="PreemptionByScheduler", message="for another", who=who)
        return self.add(case, f"{who.uid}.disruption", api.DISRUPTION_OBSERVED, data)

    def carried_out(self, case: str, action: str, kind: str, result: str = "done") -> "Telling":
        about = api.ObjectReference(api_version="v1", kind=kind, name="job-1", uid="uid-1")
        data = api.MigrationCarriedOut(
            action=action, job="job-1", object=about, result=result, who=WEB
        )
        return self.add(case, f"{case}.{action}.{kind}", api.MIGRATION_CARRIED_OUT, data)

    def resumed(self) -> "Telling":
        data = api.JournalResumed(down_ms=5300, message="No space left on device", refused=2)
        return self.add("", "resumed-1", api.JOURNAL_RESUMED, data)


Shown = Callable[..., str]
PLAIN = TextLayout()


@pytest.fixture
def show(tmp_path: Path) -> Shown:
    def shown(
        events: Sequence[AnyEvent], name: str, *, seal_every: int = 100, look: TextLayout = PLAIN
    ) -> str:
        write_journal(tmp_path, events, checkpoint_every=seal_every)
        with open_catalogue(tmp_path, tmp_path) as catalogue:
            found = resolve_decision(catalogue, name)
            assert found is not None
            return "\n".join(story_lines(build_story(catalogue, found), look))

    return shown


def evicted() -> list[AnyEvent]:
    """The policy is loaded, a pod is found, waits for a budget, and goes."""
    told = Telling().policy("3f9a1c07").finding("webcase")
    told.verdict("webcase", "defer", "budgets", "10 pods go already", after_s=0.012)
    told.verdict("webcase", "evict", number=2, after_s=65)
    told.request("webcase").ended("webcase", api.EVICTION_SUCCEEDED, "evicted")
    return told.events


def test_a_case_is_shown_from_the_change_to_the_outcome(show: Shown, golden: Golden) -> None:
    assert show(evicted(), "webcase") == golden.shared("the story")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("webcase", id="a case"),
        pytest.param("webc", id="the beginning of a case"),
        pytest.param("webcase.requested.1", id="an intent"),
        pytest.param("webcase.deci", id="the beginning of an event's id"),
        pytest.param("shop/web-1", id="a pod"),
        pytest.param("web-1", id="a pod's name"),
        pytest.param("pod-uid-of-web", id="a pod's uid"),
        pytest.param("pod-uid-of-w", id="the beginning of a pod's uid"),
    ],
)
def test_a_story_is_found_by(show: Shown, name: str) -> None:
    told = Telling().finding("dbcase", DB)
    told.events += evicted()
    told.events += Telling().finding("other", DB).events

    assert show(told.events, name).startswith("shop/web-1 on n1: evicted\n")


def test_numbers_that_are_empty_are_left_out_and_zero_is_not_empty(show: Shown) -> None:
    told = Telling(numbers={"taint": "gpu", "taintValue": "", "restarts": 0}).finding("case")

    assert "  numbers  restarts 0, taint gpu\n" in show(told.events, "case")


def test_without_any_number_that_is_not_empty_there_are_none(show: Shown) -> None:
    told = Telling(numbers={"taintValue": ""}).finding("case")

    assert "  numbers  none\n" in show(told.events, "case")


def test_what_triggered_a_later_decision_stands_before_it_where_it_is_another_change(
    show: Shown,
) -> None:
    told = Telling().finding("case").verdict("case", "defer", "budgets", "spent")
    told.version = "4712"
    told.verdict("case", "refuse", "fit", "no room", number=2)
    told.verdict("case", "defer", "budgets", "spent", number=3)
    told.version = "4711"
    told.verdict("case", "evict", number=4).request("case")

    story = show(told.events, "case").splitlines()

    course = [line[39:] for line in story if line.startswith("  20") or "  change  " in line]
    assert [line.split()[0] for line in course] == [
        *("change", "finding", "held"),
        *("change", "held", "held"),
        *("change", "evict", "request"),
    ]
    changes = [line for line in course if line.startswith("change")]
    assert [line.rpartition(" ")[2] for line in changes] == ["4711", "4712", "4711"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("Resynced", id="a start"),
        pytest.param("MoveEnded", id="a change of no single object"),
    ],
)
def test_only_a_start_says_that_anything_may_have_changed(
    show: Shown, change: str, golden: Golden
) -> None:
    told = Telling(change=change, changed="", version="").finding("case")

    assert golden() in [line.strip() for line in show(told.events, "case").splitlines()]


def test_a_later_change_is_dim_and_the_first_is_not(show: Shown) -> None:
    told = Telling().finding("case")
    told.version = "4712"
    told.verdict("case", "evict")

    story = show(told.events, "case", look=TextLayout(colours=True)).splitlines()

    first, later = [line for line in story if "NodeTaintsChanged" in line]
    assert "\x1b[36mchange" in first
    assert later.startswith("\x1b[2m ")
    assert later.endswith("resourceVersion 4712\x1b[0m")


def test_of_a_pod_the_latest_case_is_shown(show: Shown) -> None:
    told = Telling().finding("first").verdict("first", "refuse", "fit", "no room")
    told.finding("second")

    assert "  case     second: record 4" in show(told.events, "shop/web-1")


def test_what_fits_several_cases_is_refused_with_their_names(show: Shown, golden: Golden) -> None:
    told = Telling().finding("case-a").finding("case-b", DB)

    with pytest.raises(ConfigError) as caught:
        show(told.events, "case")

    assert str(caught.value) == golden()


@pytest.mark.parametrize("name", ["nothing", "eb", "SHOP/WEB-1", "shop/web-2", "epoch", ""])
def test_nothing_is_found_for_a_name_that_nothing_has(tmp_path: Path, name: str) -> None:
    write_journal(tmp_path, evicted())

    with open_catalogue(tmp_path, tmp_path) as catalogue:
        assert resolve_decision(catalogue, name) is None


def test_the_servers_words_are_shown(show: Shown) -> None:
    told = Telling().finding("case").verdict("case", "evict").request("case")
    told.ended("case", api.EVICTION_REFUSED, "pdb_refused", "web needs 2 healthy")

    story = show(told.events, "case")

    assert "outcome  pdb_refused after 47 ms: web needs 2 healthy" in story
    assert story.startswith("shop/web-1 on n1: pdb_refused\n")


def test_an_outcome_found_after_a_restart_says_how_late_it_was(show: Shown, golden: Golden) -> None:
    told = Telling().finding("case").verdict("case", "evict").request("case")
    told.at_s += 89
    told.ended("case", api.EVICTION_UNKNOWN, "unknown", took_ms=None)

    assert golden() in show(told.events, "case")


def test_a_revision_shows_its_latest_load_with_the_text_that_an_earlier_record_has(
    show: Shown,
) -> None:
    revision, text = "0d0ce3844aca", "profiles:\n- name: nightly\n"
    told = (
        Telling().policy(revision, "prod", text).policy("3f9a1c07" * 2, "prod", "no").finding("a")
    )
    told.policy(revision, "prod")

    shown = show(told.events, revision).splitlines()

    assert shown[0] == "policy.loaded, record 5"
    assert shown[4:7] == [
        f"  /etc/policy.yaml (SHA-256 {revision * 6}), by its text in record 2",
        "  profiles:",
        "  - name: nightly",
    ]


def test_a_story_names_the_cluster_and_where_the_text_of_its_policy_is(show: Shown) -> None:
    told = Telling().policy("3f9a1c07", "prod", "profiles: []").finding("webcase")

    shown = show(told.events, "webcase")

    assert "  cluster  prod\n" in shown
    assert "(record 2); its text: audit show policy-3f9a1c07" in shown.replace("\n          ", " ")


def test_what_happened_meanwhile_is_shown_in_its_place(show: Shown, golden: Golden) -> None:
    told = Telling().resumed().finding("case").verdict("case", "defer", "budgets", "spent")
    told.resumed().policy("9999").verdict("case", "evict", number=2)

    story = show(told.events, "case").splitlines()

    words = [line[39:].split()[0] for line in story if line.startswith("  2026")]
    assert words == ["finding", "held", "journal", "policy", "evict"]
    assert story[14].endswith(golden())


def test_a_pause_of_the_whole_cluster_stands_between_the_records_of_a_case(show: Shown) -> None:
    told = Telling().finding("case").verdict("case", "defer", "budgets", "spent")
    told.brake("cluster").brake("zone b").verdict("case", "evict", number=2)

    story = show(told.events, "case").splitlines()

    words = [line[39:].split()[0] for line in story if line.startswith("  2026")]
    assert words == ["finding", "held", "brake", "brake", "evict"]
    assert not any("zone b" in line for line in story)


def test_a_policy_that_is_not_the_last_one_loaded_is_said_to_be_another(
    show: Shown, golden: Golden
) -> None:
    told = Telling().policy("0000").finding("case")

    assert golden() in show(told.events, "case")


def test_a_policy_loaded_before_the_oldest_record_is_said_to_be_unknown(
    show: Shown, golden: Golden
) -> None:
    told = Telling().finding("case")

    assert golden() in show(told.events, "case")


def test_the_checkpoint_that_covers_the_last_record_is_named(show: Shown) -> None:
    story = show(evicted(), "webcase", seal_every=6)

    assert "signed  checkpoint in record 8 of" in story
    assert "over records 1 to 7 by " in story
    assert "`audit verify` checks the signature" in story


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("finding", id="found"),
        pytest.param("defer", id="deferred"),
        pytest.param("evict", id="decided"),
        pytest.param("request", id="requested"),
    ],
)
def test_a_story_without_an_end_says_how_far_it_came(
    show: Shown, last: str, golden: Golden
) -> None:
    told = Telling().finding("case")
    if last != "finding":
        told.verdict("case", "defer", "budgets", "spent")
    if last in ("evict", "request"):
        told.verdict("case", "evict", number=2)
    if last == "request":
        told.request("case")

    story = show(told.events, "case")

    assert story.startswith(f"shop/web-1 on n1: {golden()}\n")
    assert ("no outcome is recorded yet" in story) is (last == "request")


def test_a_dry_run_never_says_that_a_pod_was_evicted(show: Shown, golden: Golden) -> None:
    told = Telling(mode=api.MODE_DRY_RUN).finding("case").verdict("case", "evict").request("case")
    told.ended("case", api.EVICTION_DRY_RUN, "dry_run")

    story = show(told.events, "case")

    assert story.startswith(golden("headline") + "\n")
    assert golden("request") in story


def test_of_a_very_long_story_the_middle_is_left_out_and_counted(
    show: Shown, golden: Golden
) -> None:
    told = Telling().finding("case")
    for number in range(MAX_EVENTS + 49):
        told.verdict("case", "defer", "budgets", f"wait {number}", number=number)

    story = show(told.events, "case", seal_every=1000)

    assert golden() in story
    assert story.count("  held     budgets: wait") == MAX_EVENTS - 1
    assert f"budgets: wait {MAX_EVENTS + 48}" in story


def test_an_event_of_the_controllers_own_is_shown_alone(show: Shown) -> None:
    told = Telling().policy("3f9a1c07").resumed().policy("0000")

    story = show(told.events, "resumed-1")

    assert story.startswith("journal.resumed, record 3\n")
    assert "the disk failed for 5.3 s" in story
    assert "0000" not in story


def test_nothing_a_terminal_would_obey_is_printed(show: Shown) -> None:
    told = Telling().finding("case").verdict("case", "refuse", "fit", "\x1b[2Jgone\nnext")

    story = show(told.events, "case")

    assert "\x1b" not in story
    assert "fit: �[2Jgone next" in story


def test_colours_and_folding_change_no_word(show: Shown, golden: Golden) -> None:
    coloured = show(evicted(), "webcase", look=TextLayout(width=80, colours=True))

    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert coloured != bare
    assert bare.split() == golden.shared("the story").split()
    assert max(map(len, bare.splitlines())) <= 80


def test_what_took_a_pod_that_is_gone_is_its_story(show: Shown, golden: Golden) -> None:
    told = Telling().policy("3f9a1c07").taken("pod-uid-of-web.disruption")

    assert show(told.events, "shop/web-1") == golden("the story")


def test_what_took_a_pod_ends_the_story_of_its_finding(show: Shown, golden: Golden) -> None:
    told = Telling().finding("case").verdict("case", "defer", "budgets", "spent").taken("case")
    lines = show(told.events, "web-1").splitlines()

    assert lines[0] == golden("its end")
    [ended] = [line for line in lines if " ended " in line and line.startswith("  20")]
    assert ended.endswith("PreemptionByScheduler: for another")


def test_a_correction_is_the_end_of_a_story_and_the_outcome_stays_in_it(
    show: Shown, golden: Golden
) -> None:
    told = Telling().finding("case").verdict("case", "evict").request("case")
    told.ended("case", api.EVICTION_REFUSED, "failed").corrected("case")
    lines = show(told.events, "case").splitlines()

    assert lines[0] == golden("its end")
    outcome, corrected = [line[39:] for line in lines if line.startswith("  20")][-2:]
    assert outcome.split() == ["outcome", "failed", "after", "47", "ms"]
    assert corrected == "in truth unknown (EvictedLater): later"


def test_what_is_made_and_deleted_for_a_job_is_in_the_story_and_no_end_of_it(
    show: Shown, golden: Golden
) -> None:
    told = Telling().finding("case").verdict("case", "refuse", "MigrationJob", "a job moves it")
    told.carried_out("case", "create", "PodMigrationJob")
    told.carried_out("case", "create", "Reservation", "failed")
    lines = show(told.events, "case").splitlines()

    assert lines[0] == golden("its end")
    made = [line[39:].split(maxsplit=1) for line in lines if line.startswith("  20")][-2:]
    assert made == [
        ["job", "create PodMigrationJob job-1: done"],
        ["job", "create Reservation job-1: failed"],
    ]
