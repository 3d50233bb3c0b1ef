import io
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.plan import snapshot
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.output import write
from reactive_desched.plan.report import PlanReport
from reactive_desched.plan.text import TextStyle, lines
from tests.support.golden import Golden

PLAIN = TextStyle()


def shown(report: PlanReport, look: TextStyle = PLAIN) -> str:
    return "\n".join(lines(report, look))


def seen(report: PlanReport) -> str:
    return (
        shown(report)
        .replace(str(report.looked_at.policy.file), "policy.yaml")
        .replace(report.looked_at.policy.revision, "0" * 12)
    )


def test_evictions_come_first_and_what_it_rests_on_last(world: Any, golden: Golden) -> None:
    text = seen(world.look()).replace(str(world.folder), "")

    assert text == golden()


def test_nothing_to_evict_is_said_plainly(world: Any, golden: Golden) -> None:
    path = world.file(world.listed(world.small()[1:]))

    assert shown(world.look(path)).startswith(golden() + "\n")


UTILIZATION = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: even
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {pods: 1}, targetThresholds: {pods: 99}}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


@pytest.mark.parametrize("mode", list(PlanMode))
def test_nothing_to_evict_is_followed_by_what_keeps_plugins_that_compare_nodes(
    world: Any, golden: Golden, mode: PlanMode
) -> None:
    report = world.look(policy=UTILIZATION, mode=mode)

    assert shown(report).splitlines()[1] == golden()


def test_why_nothing_was_judged_is_the_headline(world: Any, golden: Golden) -> None:
    path = world.file(world.listed([world.node("n1"), world.pod("a")]))

    assert shown(world.look(path)).startswith(golden())


def protected(world: Any) -> list[Any]:
    """The small cluster, with two more pods that may not go."""
    mirror, local, far = (world.pod(name) for name in ("mirror", "local", "far"))
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    for each in (mirror, local, far):
        each["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    return [*world.small(), mirror, local, far]


def test_what_is_blocked_is_counted_by_gate(world: Any, golden: Golden) -> None:
    text = shown(world.look(world.file(world.listed(protected(world)))))

    assert golden() + "\n" in text
    assert "shop/local" not in text


def test_asked_for_all_it_names_every_pod_once_with_every_reason(
    world: Any, golden: Golden
) -> None:
    report = world.look(world.file(world.listed(protected(world))), show_unaffected=True)
    text = shown(report)

    assert golden() + "\n" in text
    assert (
        "1 pod without a decision:\n  POD     NODE  REASON\n  shop/c  n2    NothingFound: nothing"
        in text
    )
    for name in ("a", "b", "c", "far", "local", "mirror"):
        assert text.count(f" shop/{name} ") == 1


def test_wide_has_the_owner_as_well(world: Any) -> None:
    assert "  shop/a  n1    ReplicaSet shop/web  does not" in shown(
        world.look(), TextStyle(wide=True)
    )


def test_a_long_summary_is_cut_and_what_was_cut_is_summed_up(world: Any) -> None:
    nodes = [world.node(f"n{number:02}", "gpu") for number in range(13)]
    pods = [world.pod(f"p{number:02}", on=f"n{number:02}") for number in range(13)]
    twice = [world.pod("q", on="n12")]
    report = world.look(world.file(world.listed([*nodes, *pods, *twice])))
    rows = [line.split() for line in shown(report).splitlines()]

    assert ["node", "n12", "2", "0"] in rows
    assert ["node", "n08", "1", "0"] in rows
    assert ["node", "n09", "1", "0"] not in rows
    assert ["and", "3", "more:", "see", "-o", "wide", "3", "0"] in rows
    assert "node n09" in shown(report, TextStyle(wide=True))


def test_what_is_missing_stands_out(world: Any) -> None:
    broken = {**world.pod("broken"), "spec": {"nodeName": 7}}
    report = world.look(world.file(world.listed([*world.small(), broken])))
    text = shown(report, TextStyle(colours=True))

    assert "\x1b[1;31mNOT WHOLE: " in text
    assert "  Pod shop/broken  Expected `str`, got `int`" in text


def test_of_much_that_is_missing_the_rest_is_counted(
    world: Any, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(snapshot, "MAX_NAMED", 2)
    broken = [{**world.pod(name), "spec": 7} for name in "vwxyz"]
    report = world.look(world.file(world.listed([*world.small(), *broken])))

    assert shown(report).endswith("\n  and 3 more")
    assert report.warnings[-1] == golden()


def test_kinds_not_needed_and_repeated_objects_are_reported(world: Any) -> None:
    more = [world.pod("a"), {"apiVersion": "apps/v1", "kind": "ReplicaSet"}, world.namespace("s")]
    text = shown(world.look(world.file(world.listed([*world.small(), *more]))))

    assert "           3 pods, 1 namespaces\n" in text
    assert "not needed  1 ReplicaSet\n".replace("  ", " ") in text.replace("  ", " ")
    assert "1; the newest of each counts" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "no_colour"), [("70", None), ("70", "1")], ids=["coloured", "plain"]
)
def test_a_terminal_gets_colours_and_folded_lines(
    world: Any, monkeypatch: pytest.MonkeyPatch, columns: str, no_colour: str | None
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour:
        monkeypatch.setenv("NO_COLOR", no_colour)
    report, terminal = world.look(world.file(world.listed(protected(world)))), Terminal()
    write(report, "table", terminal)

    assert ("\x1b[" in terminal.getvalue()) is (no_colour is None)
    widest = max(terminal.getvalue().replace(report.looked_at.files[0], "").splitlines(), key=len)
    assert len(widest.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= 70


def test_what_is_piped_has_neither(world: Any, golden: Golden) -> None:
    piped = io.StringIO()
    write(world.look(world.file(world.listed(protected(world)))), "table", piped)

    assert "\x1b" not in piped.getvalue()
    assert golden() + "\n" in piped.getvalue()


BUSY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: taints
  pluginConfig: [{name: DefaultEvictor, args: {nodeFit: true}}]
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
budgets: {owner: {evictions: 1, per: 1m, burst: 1}, warmUp: null}
"""


def test_the_controllers_evictions_have_times_and_targets_and_the_rest_says_what_it_waits_for(
    world: Any, golden: Golden
) -> None:
    local = world.pod("local")
    local["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    kept = {
        **world.pod("kept"),
        "metadata": {**world.pod("kept")["metadata"], "labels": {"a": "b"}},
    }
    kept["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": "none"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": 0},
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"namespace": "shop", "name": "web", "uid": "rs-web"},
    }
    nodes = [world.node("n1", "gpu"), world.node("n2")]
    pods = [world.pod("a"), world.pod("b"), kept, local]
    report = world.look(
        world.file(world.listed([*nodes, *pods, budget, replica_set])),
        policy=BUSY,
        mode=PlanMode.RUN,
    )
    text = seen(report).replace(str(world.folder), "")

    assert text == golden()
    [waits] = (each for each in report.decisions if each.may_go_later)
    twice = replace(report, decisions=(*report.decisions, replace(waits, plugin="Another")))
    assert shown(twice).count("shop/kept") == 1
