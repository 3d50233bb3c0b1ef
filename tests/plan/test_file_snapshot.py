import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plan.file_snapshot import read_files
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import PlanReport
from reactive_desched.state.resources import PLAN_RESOURCES
from tests.support.golden import Golden


def bare(report: PlanReport) -> PlanReport:
    """Return a report without the names of its files."""
    seen = msgspec.structs.replace(report.looked_at, files=())
    return msgspec.structs.replace(report, looked_at=seen)


def test_json_and_yaml_compact_and_indented_say_the_same(world: Any) -> None:
    listed = world.listed(world.small())
    forms = {
        "compact.json": msgspec.json.encode(listed),
        "indented.json": msgspec.json.format(msgspec.json.encode(listed), indent=4),
        "list.yaml": yaml.safe_dump(listed).encode(),
        "documents.yaml": yaml.safe_dump_all(world.small(), explicit_start=True).encode(),
        "rows.json": b"\n".join(map(msgspec.json.encode, world.small())),
        "array.json": msgspec.json.encode(world.small()),
    }
    reports = [bare(world.look(world.file(text, name))) for name, text in forms.items()]

    assert [each.pod.name for each in reports[0].decisions] == ["a", "b"]
    assert reports == reports[:1] * len(forms)


def test_several_files_a_folder_and_typed_lists_make_one_picture(world: Any) -> None:
    nodes = {"kind": "NodeList", "apiVersion": "v1", "items": world.small()[:3]}
    for item in nodes["items"]:
        del item["kind"], item["apiVersion"]
    world.file(nodes, "dir/nodes.json")
    world.file(world.small()[3], "dir/deep/a.json")
    rest = world.file(world.listed(world.small()[4:]), "rest.json")

    assert world.gone(str(world.folder / "dir"), rest) == ["shop/a", "shop/b"]


def test_a_file_given_twice_changes_nothing_but_a_count(world: Any) -> None:
    path = world.file(world.listed(world.small()))
    once, twice = world.look(path), world.look(path, path)

    assert twice.decisions == once.decisions
    assert twice.looked_at.pods == once.looked_at.pods == 3
    assert twice.looked_at.repeated == 6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_order_of_objects_and_files_changes_nothing(
    tmp_path: Path, make_world: Callable[[Path], Any], seed: int, files: int
) -> None:
    world = make_world(tmp_path)
    names = [f"p{number}" for number in range(12)]
    pods = [world.pod(name, on=f"n{at % 4}", space=f"s{at % 3}") for at, name in enumerate(names)]
    nodes = [world.node("n0", "gpu"), world.node("n1", "gpu", "tpu"), world.node("n2")]
    things = [*pods, *nodes, world.pod("p1", on="n0", space="s1")]  # p1 is there twice
    expected = bare(world.look(world.file(world.listed(things)), show_unaffected=True))

    random.Random(seed).shuffle(things)
    parts = [world.listed(things[part::files]) for part in range(files)]
    paths = [world.file(part, f"{number}.json") for number, part in enumerate(parts)]
    found = bare(world.look(*paths, show_unaffected=True))

    by_version = [each for each in expected.decisions if each.pod.name != "p1"]
    assert [each for each in found.decisions if each.pod.name != "p1"] == by_version
    assert found.looked_at == expected.looked_at


def test_what_cannot_be_read_makes_the_answer_less_than_whole(world: Any, golden: Golden) -> None:
    broken = {**world.pod("broken"), "spec": {"nodeName": 7}}
    report = world.look(world.file(world.listed([*world.small(), broken])))

    assert [each.pod.name for each in report.decisions] == ["a", "b"]
    assert not report.looked_at.whole
    assert report.looked_at.unread_count == 1
    assert [(each.kind, each.name) for each in report.looked_at.unread] == [("Pod", "shop/broken")]
    assert any(golden() in w for w in report.warnings)


def test_a_page_of_a_list_makes_the_answer_less_than_whole(world: Any, golden: Golden) -> None:
    metadata = {"continue": "token", "remainingItemCount": 40}
    page = {**world.listed(world.small()), "kind": "List", "metadata": metadata}
    report = world.look(path := world.file(page))

    assert not report.looked_at.whole
    assert report.warnings == (golden(path=path),)


@pytest.mark.parametrize("lacking", ["nodes", "pods"])
def test_no_nodes_or_no_pods_is_wrong_input_with_a_remedy(world: Any, lacking: str) -> None:
    kind = {"nodes": "Node", "pods": "Pod"}[lacking]
    path = world.file(world.listed(t for t in world.small() if t["kind"] != kind))
    with pytest.raises(ConfigError) as caught:
        world.look(path)

    assert f"{path}: there are no {lacking} in here" in str(caught.value)
    kinds = ",".join(sorted(PLAN_RESOURCES))
    assert f"kubectl get {kinds} -A -o json" in str(caught.value)


def test_progress_is_shown_while_a_file_is_read(world: Any) -> None:
    class Remembering(Progress):
        def __init__(self) -> None:
            self.updates: list[tuple[str, int, int]] = []

        def update(self, what: str, done: int, total: int = 0) -> None:
            self.updates.append((what, done, total))

    path = world.file(yaml.safe_dump(world.listed(world.small())), "a.yaml")
    progress = Remembering()
    read_files([path], progress)

    assert {what for what, *_ in progress.updates} == {f"converting {path}", f"reading {path}"}
    shares = [done / of for what, done, of in progress.updates if what.startswith("reading")]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
