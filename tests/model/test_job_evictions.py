"""What is left of a Job's tries once one of its pods was evicted."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.job_evictions import tries_left_without
from reactive_desched.model.job_tries import FailureRule, JobTries
from reactive_desched.model.objects import Annotations, Pod, PodStatus
from reactive_desched.testing.builders import condition, container, pod, pod_status

DISRUPTED = (("DisruptionTarget", "True"),)
IGNORES = FailureRule("Ignore", conditions=DISRUPTED)
RUNS = pod_status("Running", container("main"))


def of_job(status: PodStatus = RUNS, index_failures: int = 0) -> Pod:
    annotations = Annotations(job_index_failures=index_failures)
    return replace(pod("report-1", on="n1", status=status), annotations=annotations)


def left(tries: JobTries, of: Pod | None = None, leaving: int = 0) -> int | None:
    found = tries_left_without(tries, of_job() if of is None else of, leaving)
    return None if found is None else found.tries


def codes(action: str, operator: str, *values: int, of: str = "") -> FailureRule:
    return FailureRule(action, values, operator, of)


@pytest.mark.parametrize(
    ("limit", "failed", "leaving", "expected"),
    [(0, 0, 0, 0), (6, 0, 0, 6), (6, 5, 0, 1), (6, 5, 1, 0), (6, 6, 0, 0), (1, 3, 0, 0)],
)
def test_an_eviction_counts_as_a_failure_as_do_those_of_other_pods_that_leave(
    limit: int, failed: int, leaving: int, expected: int
) -> None:
    assert left(JobTries(limit, failed=failed), leaving=leaving) == expected


@pytest.mark.parametrize(("failures", "expected"), [(0, 2), (1, 1), (2, 0)])
def test_an_index_has_a_limit_of_its_own(failures: int, expected: int) -> None:
    tries = JobTries(backoff_limit_per_index=2, backoff_limit=100)

    assert left(tries, of_job(index_failures=failures)) == expected
    assert left(replace(tries, backoff_limit=0), of_job(index_failures=failures)) == 0


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param((IGNORES,), None, id="disruptions are ignored"),
        pytest.param((codes("FailJob", "In", 42), IGNORES), None, id="another code before that"),
        pytest.param((codes("FailJob", "In", 143), IGNORES), 0, id="the code of SIGTERM"),
        pytest.param((codes("FailIndex", "In", 137), IGNORES), 0, id="the code of SIGKILL"),
        pytest.param((codes("FailJob", "NotIn", 1, 2), IGNORES), 0, id="every other code"),
        pytest.param((codes("FailJob", "NotIn", 137, 143), IGNORES), None, id="codes but these"),
        pytest.param((codes("Count", "In", 143), IGNORES), 3, id="counted before it is ignored"),
        pytest.param((codes("Ignore", "In", 143, 137),), None, id="both codes are ignored"),
        pytest.param((codes("Ignore", "In", 143),), 3, id="only one of the codes is ignored"),
        pytest.param((codes("FailJob", "In", 143, of="other"), IGNORES), None, id="not of main"),
        pytest.param((codes("FailJob", "In", 143, of="main"), IGNORES), 0, id="of main"),
        pytest.param((FailureRule("FailJob", conditions=DISRUPTED), IGNORES), 0, id="first wins"),
        pytest.param(
            (FailureRule("Ignore", conditions=(("DisruptionTarget", "False"),)),), 3, id="no match"
        ),
        pytest.param((FailureRule("Ignore", conditions=(("Bad", "True"),)),), 3, id="another one"),
        pytest.param((FailureRule("Unheard", conditions=DISRUPTED),), 3, id="an unknown action"),
    ],
)
def test_the_first_rule_that_matches_says_what_an_eviction_costs(
    rules: tuple[FailureRule, ...], expected: int | None
) -> None:
    assert left(JobTries(3, rules=rules)) == expected


def test_a_deletion_lacks_the_condition_that_the_eviction_api_sets() -> None:
    found = tries_left_without(JobTries(0, rules=(IGNORES,)), of_job(), is_deleted=True)

    assert found is not None
    assert found.tries == 0


def test_what_the_pod_has_already_counts_as_well() -> None:
    bad = pod_status("Running", container("main"), conditions=[condition("Bad")])
    ended = pod_status("Running", container("main"), container("side", ended="Error", code=42))
    waits = pod_status("Pending", container("main", waits="ImagePullBackOff"))
    on_bad = JobTries(3, rules=(FailureRule("FailJob", conditions=(("Bad", "True"),)), IGNORES))
    on_code = JobTries(3, rules=(codes("FailJob", "NotIn", 143, 137), IGNORES))

    assert (left(on_bad), left(on_bad, of_job(bad))) == (None, 0)
    assert (left(on_code), left(on_code, of_job(ended))) == (None, 0)
    assert left(JobTries(3, rules=(codes("FailJob", "In", 143), IGNORES)), of_job(waits)) is None


def test_a_running_pod_whose_containers_are_not_reported_ends_with_a_code() -> None:
    tries = JobTries(3, rules=(codes("FailJob", "In", 143), IGNORES))

    assert left(tries, of_job(pod_status("Running"))) == 0
