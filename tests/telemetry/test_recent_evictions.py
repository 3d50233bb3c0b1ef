import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import NodeTaintsChanged
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import ChangeTrigger, Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MOVED, EndedMove, MoveEnd, MoveOrigin, MoveOwner
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.model.subjects import PodSubject
from reactive_desched.telemetry.recent_evictions import MAX_RECENT, MoveSummary, RecentEvictions
from reactive_desched.testing.builders import pod, pod_status


def evaluation(name: str) -> Evaluation:
    finding = Finding(pod(name, on="n1", namespace="shop"), "NodeTaints", "does not tolerate gpu")
    cause = ChangeTrigger(NodeTaintsChanged("n1"), seen_at=10.0)
    return Evaluation("default", PodSubject(name), Evict(finding), cause, 10.5, True)


def ended(name: str, *, finding_holds: bool) -> EndedMove:
    owner = MoveOwner("shop", "Deployment", "web", "u1")
    uid = evaluation(name).finding.pod.uid
    origin = MoveOrigin(uid, name, "n1", "h1", "NodeTaints", owner, 10.0)
    end = MoveEnd(MOVED, "", finding_holds, 1.0, 2.5, "web-new", "u-new", "n2")
    return EndedMove("request-1", origin, end)


def test_the_newest_is_first_and_the_oldest_is_dropped() -> None:
    recent = RecentEvictions(lambda: 60.0)
    for number in range(MAX_RECENT + 1):
        recent.add(evaluation(f"web-{number}"), Outcome(EVICTED, "EvictionAccepted"))
    names = [each.pod for each in recent.newest_first()]
    assert names == [f"web-{number}" for number in range(MAX_RECENT, 0, -1)]


def test_what_became_of_an_eviction_is_added_to_it() -> None:
    recent = RecentEvictions(lambda: 60.0)
    recent.add(evaluation("web-1"), Outcome(EVICTED, "EvictionAccepted"))
    recent.add(evaluation("web-2"), Outcome(EVICTED, "EvictionAccepted"))
    recent.follow_up(ended("web-1", finding_holds=True))
    recent.follow_up(ended("web-0", finding_holds=True))
    second, first = recent.newest_first()
    assert second.follow_up is None
    assert first.follow_up == MoveSummary(MOVED, False, "moved", True, "web-new", "n2", 2.5)


@pytest.mark.parametrize(
    ("phase", "owner", "awaits"),
    [
        pytest.param("Running", "ReplicaSet", True, id="a pod of a Deployment"),
        pytest.param("Failed", "ReplicaSet", False, id="one that failed: it was replaced then"),
        pytest.param("Failed", "StatefulSet", True, id="a failed one of a StatefulSet"),
        pytest.param("Succeeded", "DaemonSet", True, id="an ended one of a DaemonSet"),
        pytest.param("Running", "", False, id="a bare pod"),
    ],
)
def test_a_replacement_is_awaited_where_a_controller_creates_one(
    phase: str, owner: str, *, awaits: bool
) -> None:
    owners = (OwnerReference(owner, "web", "u1", controller=True),) if owner else ()
    of = replace(pod("web-1", on="n1", status=pod_status(phase)), owners=owners)
    found = Finding(of, "NodeTaints", "old")
    cause = ChangeTrigger(NodeTaintsChanged("n1"), seen_at=10.0)
    decided = Evaluation("default", PodSubject("web-1"), Evict(found), cause, 10.5, True)
    recent = RecentEvictions(lambda: 60.0)

    recent.add(decided, Outcome(EVICTED, "EvictionAccepted"))

    assert recent.newest_first()[0].awaits_replacement is awaits
