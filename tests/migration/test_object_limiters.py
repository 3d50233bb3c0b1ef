"""How often the pods of one workload or namespace are moved: koordinator's own figures."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.migration import object_limiters
from reactive_desched.migration.limits import WorkloadSize
from reactive_desched.migration.object_limiters import ObjectLimiters
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import CONFLICT, EVICTED
from reactive_desched.policy.settings.migration import MigrationJobSettings
from tests.support.evictions import decide, finish, restore
from tests.support.golden import Golden

DEFAULT = {"workload": {"duration": "5m"}}
TEN_A_SECOND = {"workload": {"duration": "1s", "maxMigrating": 10}}


def pod(name: str, owner: str = "web", namespace: str = "shop") -> Pod:
    owners = (OwnerReference("ReplicaSet", owner, owner, controller=True),)
    return Pod(namespace, name, f"uid-{name}", node="n1", owners=owners)


def finding(of: Pod) -> Finding:
    return Finding(of, "MigrationJobs", "a job asks for it")


def limiters(settings: dict[str, Any], replicas: int = 10) -> ObjectLimiters:
    """Return the limiters of these settings over workloads of so many replicas."""
    return ObjectLimiters(
        MigrationJobSettings.model_validate({"objectLimiters": settings}).object_limiters,
        None,
        lambda _: WorkloadSize(replicas),
        lambda of: of.owners[0].uid if of.owners else "",
        lambda of: of.pod.name == "exempt",
    )


def evict(limited: ObjectLimiters, of: Pod, now: float) -> None:
    """Evict a pod, whose request takes no time."""
    decide(limited, finding(of), profile=MIGRATION_PROFILE)
    finish(limited, of.uid, now, evicted=True)


@pytest.mark.parametrize(
    ("settings", "after_s", "is_free"),
    [
        (TEN_A_SECOND, 0.1, True),
        (TEN_A_SECOND, 0.01, False),
        ({"workload": {"duration": "0s", "maxMigrating": 10}}, 0.01, True),
        (DEFAULT, 0.01, False),
        ({"workload": {"duration": "1s", "maxMigrating": 10, "burst": 2}}, 0.01, True),
        ({"namespace": {"duration": "1s", "maxMigrating": 5}}, 0.1, False),
        ({"namespace": {"duration": "1s", "maxMigrating": 5}}, 0.2, True),
    ],
)
def test_after_an_eviction_the_next_one_waits_for_a_token(
    settings: dict[str, Any], after_s: float, is_free: Any
) -> None:
    limited = limiters(settings)
    first, second = pod("a"), pod("b")
    assert limited.check(finding(first), 0.0) is None
    evict(limited, first, 0.0)

    assert (limited.check(finding(second), after_s) is None) is is_free
    assert limited.check(finding(pod("c", "db", "other")), after_s) is None


def test_default_arguments_space_the_pods_of_ten_replicas_by_150_seconds(golden: Golden) -> None:
    limited = limiters(DEFAULT)
    evict(limited, pod("a"), 0.0)

    decision = limited.check(finding(pod("b")), 30.0)
    assert decision is not None
    assert decision.retry_at_s == 150.0
    assert decision.setting == "migration.objectLimiters.workload"
    assert decision.says(30.0) == golden()
    assert limited.check(finding(pod("b")), 150.0) is None


def test_a_token_is_held_by_an_eviction_under_way_and_comes_back_with_one_that_failed() -> None:
    limited = limiters(DEFAULT)
    decide(limited, finding(pod("a")), profile=MIGRATION_PROFILE)
    assert limited.check(finding(pod("b")), 0.0) is not None

    finish(limited, "uid-a", 1.0, evicted=False)
    assert limited.check(finding(pod("b")), 1.0) is None


def test_a_job_may_be_exempt_and_the_making_of_jobs_is_not() -> None:
    limited = limiters(DEFAULT)
    evict(limited, pod("a"), 0.0)

    assert limited.check(finding(pod("exempt")), 1.0) is None
    assert limited.lacks_token(finding(pod("exempt")), 1.0) is not None


def test_a_share_goes_by_the_replicas_and_a_bare_pod_has_no_workload() -> None:
    limited = limiters({"workload": {"duration": "100s", "maxMigrating": "50%"}})
    evict(limited, pod("a"), 0.0)
    evict(limited, replace(pod("bare"), owners=()), 0.0)

    assert limited.check(finding(pod("b")), 19.0) is not None
    assert limited.check(finding(pod("b")), 20.0) is None
    assert limited.check(finding(replace(pod("bare-2"), owners=())), 0.0) is None


def past(name: str, ended_s: float | None, result: str = EVICTED, **fields: Any) -> PastEviction:
    made = PastEviction(
        f"past-{name}", 900.0, f"uid-{name}", "shop", name, "n1", replacing_uid="web"
    )
    return replace(made, **{"profile": "migration", "ended_s": ended_s, "result": result, **fields})


def test_evictions_of_earlier_processes_have_taken_their_tokens() -> None:
    earlier = [past("x", 940.0, CONFLICT), past("y", 930.0, profile="nightly"), past("a", 920.0)]
    limited = limiters(DEFAULT)
    restore(limited, earlier, now=0.0, wall_now=1000.0)

    decision = limited.check(finding(pod("b")), 10.0)
    assert decision is not None
    assert decision.retry_at_s == pytest.approx(70.0)


def test_a_request_of_an_earlier_process_holds_a_token_until_its_outcome_is_known() -> None:
    limited = limiters(DEFAULT)
    restore(limited, [past("a", None, "")], now=0.0, wall_now=1000.0)
    assert limited.check(finding(pod("b")), 1.0) is not None

    finish(limited, "uid-a", 2.0, evicted=False)
    assert limited.check(finding(pod("b")), 2.0) is None


def test_a_bucket_is_dropped_after_a_while_and_beyond_a_number_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_limiters, "MAX_OBJECTS", 2)
    limited = limiters({"workload": {"duration": "1000s", "maxMigrating": 1}})
    for number in range(3):
        evict(limited, pod(str(number), f"owner-{number}"), float(number))

    assert limited.check(finding(pod("a", "owner-0")), 3.0) is None, "dropped: full again"
    assert limited.check(finding(pod("a", "owner-1")), 3.0) is not None
