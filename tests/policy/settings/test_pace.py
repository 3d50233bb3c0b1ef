"""The setting `pace`: what it sets, and what is named beside it."""

import re
from pathlib import Path

import pytest

from reactive_desched.policy.policy import PolicyEvictionLimits
from reactive_desched.policy.settings.controller_settings import default_controller_settings
from reactive_desched.policy.settings.pace import PACES, Pace, sections_at_pace
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from tests.support.policy_texts import load_settings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
MIGRATION_PAGE = Path(__file__).parents[3] / "docs" / "howto" / "from-the-sig-descheduler.md"
LIMITS_PAGE = Path(__file__).parents[3] / "docs" / "howto" / "limits.md"


def settings(text: str) -> ReactiveSettings:
    return load_settings(HEAD + text, "s.yaml")


def limits(text: str, nodes: int = 0) -> dict[str, str]:
    return settings(text).budgets.describe(PolicyEvictionLimits(), nodes)


def test_normal_is_what_holds_without_a_word() -> None:
    assert settings("pace: normal\n").budgets == default_controller_settings().budgets
    assert sections_at_pace(default_controller_settings(), "normal") == {}


@pytest.mark.parametrize("pace", ["careful", "fast"])
def test_a_pace_sets_every_rate_the_moves_at_once_and_the_storm(pace: Pace) -> None:
    usual, found = default_controller_settings(), settings(f"pace: {pace}\n")
    is_more = pace == "fast"
    for scope, rate in found.budgets.by_scope().items():
        before = usual.budgets.by_scope()[scope]
        assert rate is not None
        assert before is not None
        assert (rate.per_second > before.per_second, rate.burst > before.burst) == (is_more,) * 2
        assert rate.per_second != before.per_second
    for name in ("namespace", "node", "zone", "cluster"):
        moving, before = (getattr(each.moves.max_moving, name) for each in (found, usual))
        assert (moving > before, moving != before) == (is_more, True)
    assert found.brakes.storm is not None
    assert usual.brakes.storm is not None
    assert (found.brakes.storm.pods > usual.brakes.storm.pods) == is_more


def test_what_the_settings_name_counts_before_the_pace_part_by_part() -> None:
    said = limits("pace: fast\nbudgets: {cluster: {burst: 5}, zone: null, warmUp: null}\n")
    assert said["cluster"] == "120 a minute, 5 at once"
    assert said["zone"] == "unlimited"
    assert "warmUp" not in said
    assert said["namespace"] == "60 a minute, 15 at once"


def test_the_defaults_of_a_section_that_is_named_in_part_are_those_of_the_pace() -> None:
    found = settings("pace: careful\nmoves: {maxMoving: {node: 7}}\nbrakes: {storm: null}\n")
    assert (found.moves.max_moving.node, found.moves.max_moving.cluster) == (7, 20)
    assert found.moves.ready_timeout_s == default_controller_settings().moves.ready_timeout_s
    assert found.brakes.storm is None
    assert found.brakes.zones == default_controller_settings().brakes.zones


def test_rates_of_a_pace_grow_with_a_large_cluster_and_named_ones_do_not() -> None:
    said = limits("pace: fast\nbudgets: {plugin: {burst: 9}}\n", nodes=3000)
    assert said["cluster"] == "240 a minute, 80 at once"
    assert said["plugin"] == "120 a minute, 9 at once"


@pytest.mark.parametrize("pace", PACES)
def test_the_table_of_the_page_is_what_a_pace_sets(pace: Pace) -> None:
    found = settings(f"pace: {pace}\n")
    moving, storm = found.moves.max_moving, found.brakes.storm
    assert storm is not None
    rows = {
        f"budgets.{scope}": text
        for scope, text in found.budgets.describe(PolicyEvictionLimits()).items()
    } | {
        f"moves.maxMoving.{name}": str(getattr(moving, name))
        for name in ("owner", "namespace", "node", "zone", "cluster")
    }
    rows["brakes.storm"] = f"{storm.pods} pods and {storm.percent:g} %"
    page = LIMITS_PAGE.read_text(encoding="utf-8")
    column = ["careful", "normal", "fast"].index(pace) + 2
    shown = {
        cells[1].strip(" `"): cells[column].strip()
        for line in page.splitlines()
        if len(cells := line.split("|")) > column and cells[1].strip(" `") in rows
    }
    assert shown == rows


def test_the_migration_page_names_every_limit_and_brake_that_holds_by_default() -> None:
    page = MIGRATION_PAGE.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line[:2] == "| "]
    numbers = {
        row[-1].strip("`"): [int(number) for number in re.findall(r"\d+", " ".join(row[:-1]))]
        for row in rows
    }
    usual = default_controller_settings()
    moving, brakes, warm_up = usual.moves.max_moving, usual.brakes, usual.budgets.warm_up
    assert brakes.storm is not None
    assert brakes.pending is not None
    assert brakes.zones is not None
    assert brakes.zones.large_zone_rate is not None
    assert warm_up is not None

    for scope, rate in usual.budgets.by_scope().items():
        assert rate is not None
        assert numbers[f"budgets.{scope}"] == [round(rate.per_second * 60), rate.burst], scope
    assert numbers["budgets.warmUp"] == [warm_up.duration_s / 60]
    assert warm_up.from_percent == 20  # the page says: a fifth
    moved = [moving.namespace, moving.node, moving.zone, moving.cluster]
    assert numbers["moves.maxMoving"] == [int(str(moving.owner).strip("%")), 1, *moved]
    quiet_s, storm = brakes.storm.release_after_s, brakes.storm
    assert quiet_s is not None
    assert numbers["brakes.storm"] == [quiet_s / 60, storm.percent, storm.pods]
    assert numbers["brakes.pending"] == [brakes.pending.percent, brakes.pending.pods]
    assert numbers["brakes.zones"] == [
        *(brakes.zones.large_zone_nodes, brakes.zones.large_zone_rate.evictions),
        brakes.zones.unhealthy_percent,
    ]
