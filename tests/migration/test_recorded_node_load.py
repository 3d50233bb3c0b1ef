"""The pods that koordinator's LowNodeLoad evicted, migration jobs are made for as well.

The recordings stand beside the repository; where they do not, one test is skipped and says so.
"""

from pathlib import Path
from typing import Any

import pytest

from reactive_desched.controller.controller import Controller
from reactive_desched.plan.controller_run import decide_now
from reactive_desched.plan.inputs import PlanOptions, look
from reactive_desched.plan.progress import Progress
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from tests.support.conformance import FOLDER, RecordedCase, case_parameters, check, write_case
from tests.support.limits import UNLIMITED

FILE = FOLDER / "LowNodeLoad.jsonl"
SETTINGS = f"""\
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 0s}}
brakes: {{zones: null, storm: null, pending: null}}
nodeFit: upstream
{UNLIMITED}"""
JOBS = """\
evictions: {evictor: migration}
migration:
  evictAllBarePods: true
  evictLocalStoragePods: true
  evictSystemCriticalPods: true
  maxMigratingPerNode: 0
  skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload, ExpectedReplicas]
"""
"""Nothing but the policy protects pods, and no limit on jobs is there: so koordinator ran."""

RECORDED = case_parameters(FILE)


def decided(case: RecordedCase, folder: Path, settings: str) -> Controller:
    """Let a controller look at the recorded cluster once."""
    written = write_case(case, folder)
    policy = folder / "policy.yaml"
    policy.write_text(policy.read_text() + SETTINGS + settings)
    options = PlanOptions(policy=str(policy), files=(written["cluster"],), now=written["now"])
    seen = look(options, Progress())
    return decide_now(seen.configuration, seen.snapshot, seen.moment.timestamp())[0]


def ordered(controller: Controller) -> list[dict[str, Any]]:
    """Take out the jobs that are to be made, as `check.py` takes decisions."""
    migrations = controller.migrations
    assert migrations is not None
    found = []
    while (order := migrations.pending_jobs.take()) is not None:
        migrations.end_order(order, made=True)
        pod = {"namespace": order.pod.namespace, "name": order.pod.name}
        found.append({"action": "Evict", "pod": pod, "plugin": order.trigger, "profile": "default"})
    return found


@pytest.fixture
def _passes_as_koordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the controller count use as koordinator does, whose evictions were recorded.

    A controller counts the pods that came and left since the measurement, too.
    """
    monkeypatch.setattr(LowNodeLoadPlugin, "balance", lambda self, _, view: self.sweep(view))


@pytest.mark.usefixtures("_passes_as_koordinator")
@pytest.mark.parametrize("case", RECORDED)
def test_jobs_are_made_for_the_pods_that_koordinator_evicted(
    case: RecordedCase, tmp_path: Path
) -> None:
    expected, controller = case.read(), decided(case, tmp_path, JOBS)
    for _ in range(expected.get("passes", 1) - 1):
        ordered(controller)
        controller.evaluator.resync(0.0)
        assert not list(controller.work(lambda: False))

    assert check().compare(expected, {"decisions": ordered(controller)}, 0, "") == []


@pytest.mark.parametrize("case", RECORDED)
def test_jobs_are_made_for_the_pods_that_would_be_evicted_directly(
    case: RecordedCase, tmp_path: Path
) -> None:
    directly = decided(case, tmp_path, "").gates.ledger.open()
    by_jobs = ordered(decided(case, tmp_path, JOBS))

    assert [each["pod"] for each in by_jobs] == [
        {"namespace": each.scopes.namespace, "name": each.origin.pod_name} for each in directly
    ]
