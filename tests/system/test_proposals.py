import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import PROPOSALS_APPROVED, PROPOSALS_REJECTED
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED

NODE = "node-1"


@pytest.fixture
def settings() -> str:
    return f"{UNLIMITED}mode: propose\nproposals: {{annotationsOf: [namespace]}}\n"


def proposed(server: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the id of the proposal of each pod, as NAMESPACE/NAME."""
    capsys.readouterr()
    assert main(["proposals", "--server", server, "-o", "json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    return {f"{p['namespace']}/{p['pod']}": p["id"] for g in groups for p in g["proposals"]}


def recorded_types(folder: Path) -> set[str]:
    """Return the types of the events that are on the disk: a command does not wait for its own."""
    return {each.type for each in read_events(folder / "journal")}


def test_what_is_approved_goes_and_what_is_rejected_stays_also_over_a_kill(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    cluster.taint(NODE, "gpu")
    expected = sum(kind != "DaemonSet" for kind in cluster.pods_on(NODE).values())
    program.wait_until(lambda: len(proposed(program.url, capsys)) == expected)
    before = proposed(program.url, capsys)
    kept, *others = before.values()
    assert others

    answer = ["--server", program.url, "--by", "ann"]
    assert main(["reject", kept, "--for", "7d", "--because", "month-end batch", *answer]) == 0
    assert main(["approve", "--all", "--reason", "change 4711", *answer]) == 0
    assert main(["approve", "00000000", *answer]) == 2
    program.wait_until(lambda: PROPOSALS_APPROVED in recorded_types(tmp_path))
    program.stop(signal.SIGKILL)
    program = controller("--log-format", "json")
    program.wait_for('"event":"evicted"|"event": "evicted"')
    program.wait_until(lambda: kept not in proposed(program.url, capsys).values())

    records = list(read_events(tmp_path / "journal"))
    [rejected] = [each.data for each in records if each.type == PROPOSALS_REJECTED]
    [approved] = [each.data for each in records if each.type == PROPOSALS_APPROVED]
    assert (rejected.proposals, rejected.message) == ((kept,), "month-end batch")
    assert (approved.by, set(approved.proposals)) == ("ann", set(others))
    pod = next(name for name, proposal in before.items() if proposal == kept)
    evicted = {each.subject for each in records if "eviction.requested" in each.type}
    assert evicted
    assert pod not in evicted


def test_an_annotation_of_the_namespace_lets_proposed_pods_go_and_that_is_a_record(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    cluster.taint(NODE, "gpu")
    program.wait_until(lambda: len(proposed(program.url, capsys)) > 1)
    namespace = next(iter(proposed(program.url, capsys))).partition("/")[0]
    until = datetime.now(UTC) + timedelta(hours=1)
    answer = f"approve until {until:%Y-%m-%dT%H:%M:%SZ} change 4711"
    annotated = {"metadata": {"annotations": {"reactive-desched/proposals": answer}}}
    cluster.call("PATCH", f"/api/v1/namespaces/{namespace}", annotated)
    program.wait_for('"event":"evicted"|"event": "evicted"')
    program.stop()

    records = list(read_events(tmp_path / "journal"))
    approved = [each.data for each in records if each.type == PROPOSALS_APPROVED]
    assert {each.by for each in approved} == {f"the annotation of namespace {namespace}"}
    assert {each.message for each in approved} == {"change 4711"}
    evicted = {each.subject for each in records if "eviction.requested" in each.type}
    assert evicted
    assert all(each.startswith(f"{namespace}/") for each in evicted)
