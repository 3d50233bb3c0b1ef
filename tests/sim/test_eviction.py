"""The rows of the eviction matrix: what the API server answers, and what it did."""

import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Event, Store
from tests.support.golden import verbatim

START = 1_800_000_000.0


class World:
    """A pod on a node, and whatever budgets a test adds."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = Store(self.clock, random.Random(7))
        seed(self.store)

    def pod(self, *, phase: str = "Running", ready: bool = True) -> Any:
        meta = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "app:1"}]}
        self.store.create("pods", {"metadata": meta, "spec": spec})
        self.status("pods", "p", phase=phase, conditions=[self.ready(ready=ready)])
        return self.current()

    @staticmethod
    def ready(*, ready: bool) -> dict[str, str]:
        return {"type": "Ready", "status": "True" if ready else "False"}

    def status(self, resource: str, name: str, **status: Any) -> None:
        def change(obj: dict[str, Any]) -> dict[str, Any]:
            return {**obj, "status": {**obj.get("status", {}), **status}}

        self.store.modify(resource, "default", name, change, subresource="status")

    def budget(self, name: str = "b", *, selector: Any = "app", **status: Any) -> None:
        chosen = {"matchLabels": {"app": "web"}} if selector == "app" else selector
        spec = {"minAvailable": 1, "selector": chosen}
        if policy := status.pop("policy", ""):
            spec["unhealthyPodEvictionPolicy"] = policy
        budget = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.store.create("poddisruptionbudgets", budget)
        told = {"observedGeneration": 1, "disruptionsAllowed": 1}
        told |= {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
        self.status("poddisruptionbudgets", name, **{**told, **status})

    def evict(self, **options: Any) -> None:
        evict(self.store, "default", "p", DeleteOptions(**options))

    def refusal(self, **options: Any) -> StatusError:
        before = self.current()
        with pytest.raises(StatusError) as refused:
            self.evict(**options)
        assert self.current() == before, "a refused eviction leaves the pod alone"
        return refused.value

    def current(self) -> Any:
        return self.store.get("pods", "default", "p")

    def allowed(self, name: str = "b") -> Any:
        budget = self.store.get("poddisruptionbudgets", "default", name)
        assert budget is not None
        return budget["status"]["disruptionsAllowed"]

    def is_going(self) -> bool:
        pod = self.current()
        return pod is None or "deletionTimestamp" in pod["metadata"]


@pytest.fixture
def world() -> World:
    return World()


def causes(error: StatusError) -> list[tuple[str, str]]:
    return [(c["reason"], c["message"]) for c in error.details.get("causes", ())]


def test_without_a_budget_the_pod_goes_gracefully(world: World) -> None:
    world.pod()
    world.evict()
    meta = world.current()["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (
        "2027-01-15T08:00:30Z",
        30,
    )


def test_an_accepted_eviction_is_two_writes_the_mark_and_the_deletion(world: World) -> None:
    world.pod()
    events: list[Event] = []
    world.store.subscribe(events.append)
    world.evict()

    marked, deleted = events
    target = find_condition(marked.object, "DisruptionTarget")
    assert target is not None
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert target["message"] == "Eviction API: evicting"
    assert "deletionTimestamp" not in marked.object["metadata"]
    assert "deletionTimestamp" in deleted.object["metadata"]


def test_a_budget_with_room_is_spent_by_one_and_notes_the_pod(world: World) -> None:
    world.pod()
    world.budget(disruptionsAllowed=2)
    world.evict()

    assert world.is_going()
    assert world.allowed() == 1
    budget = world.store.get("poddisruptionbudgets", "default", "b")
    assert budget is not None
    assert budget["status"]["disruptedPods"] == {"p": "2027-01-15T08:00:00Z"}


def test_spending_the_last_disruption_turns_the_condition(world: World) -> None:
    world.pod()
    world.budget()
    world.evict()

    budget = world.store.get("poddisruptionbudgets", "default", "b")
    assert budget is not None
    condition = find_condition(budget, "DisruptionAllowed")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")


def test_a_dry_run_is_accepted_and_does_nothing(world: World) -> None:
    before = world.pod()
    world.budget()
    world.evict(dry_run=True)
    assert world.current() == before
    assert world.allowed() == 1


def test_a_missing_pod_is_404(world: World) -> None:
    with pytest.raises(StatusError, match='pods "p" not found') as refused:
        world.evict()
    assert refused.value.code == 404


@pytest.mark.parametrize("field", ["uid", "resource_version"])
def test_a_failed_precondition_is_409(world: World, field: str) -> None:
    world.pod()
    error = world.refusal(**{field: "1"})
    assert (error.code, error.reason) == (409, "Conflict")


def test_preconditions_that_hold_are_no_obstacle(world: World) -> None:
    meta = world.pod()["metadata"]
    world.evict(uid=meta["uid"], resource_version=meta["resourceVersion"])
    assert world.is_going()


def test_an_exhausted_budget_is_429_without_retry_after(world: World) -> None:
    world.pod()
    world.budget(disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    error = world.refusal()
    assert (error.code, error.reason, error.retry_after) == (429, "TooManyRequests", 0)
    assert error.message == verbatim(
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    text = verbatim("The disruption budget b needs 1 healthy pods and has 1 currently")
    assert causes(error) == [("DisruptionBudget", text)]


def test_a_stale_budget_is_429_with_retry_after_ten(world: World) -> None:
    world.pod()
    world.budget(observedGeneration=0)
    error = world.refusal()
    assert (error.code, error.retry_after) == (429, 10)
    text = verbatim("The disruption budget b is still being processed by the server.")
    assert causes(error) == [("DisruptionBudget", text)]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param(
            {"reason": "SyncFailed", "message": "no scale"},
            verbatim(
                "The disruption budget b does not allow evicting pods currently because it failed"
                " sync: no scale"
            ),
            id="the controller could not compute it",
        ),
        pytest.param(
            {"reason": "InsufficientPods", "message": "wait"},
            verbatim(
                "The disruption budget b does not allow evicting pods currently (InsufficientPods):"
                " wait"
            ),
            id="the controller said why",
        ),
        pytest.param(
            {"reason": "InsufficientPods"},
            verbatim("The disruption budget b does not allow evicting pods currently"),
            id="nobody said why",
        ),
    ],
)
def test_the_cause_explains_the_refusal_when(
    world: World, status: dict[str, str], text: str
) -> None:
    world.pod()
    condition = {"type": "DisruptionAllowed", "status": "False", **status}
    world.budget(disruptionsAllowed=0, currentHealthy=2, conditions=[condition])
    assert causes(world.refusal()) == [("DisruptionBudget", text)]


def test_a_negative_budget_is_403(world: World) -> None:
    world.pod()
    world.budget(disruptionsAllowed=-1)
    error = world.refusal()
    assert (error.code, error.reason) == (403, "Forbidden")
    assert "pdb disruptions allowed is negative" in error.message


def test_too_many_unconfirmed_evictions_are_403(world: World) -> None:
    world.pod()
    world.budget(disruptedPods={f"p{i}": "2027-01-15T08:00:00Z" for i in range(2001)})
    assert world.refusal().code == 403


def test_two_budgets_over_one_pod_are_500_without_a_reason(world: World) -> None:
    world.pod()
    world.budget("b")
    world.budget("c")
    error = world.refusal()
    assert (error.code, error.reason) == (500, "")
    assert "reason" not in error.body()
    assert error.message.startswith(verbatim("This pod has more than one PodDisruptionBudget"))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_a_pod_that_is_not_running_needs_no_budget(world: World, phase: str) -> None:
    world.pod(phase=phase)
    world.budget(disruptionsAllowed=0)
    world.evict()
    assert world.is_going()


def test_a_terminating_pod_needs_no_budget(world: World) -> None:
    world.pod()
    world.budget()
    world.evict()
    world.evict(grace_period_seconds=1)
    assert world.current()["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("ready", "budget", "code"),
    [
        pytest.param(False, {"policy": "AlwaysAllow"}, 0, id="unready, always allowed"),
        pytest.param(True, {"policy": "AlwaysAllow"}, 429, id="ready, always allowed"),
        pytest.param(False, {}, 0, id="unready, budget healthy"),
        pytest.param(False, {"currentHealthy": 1}, 0, id="unready, budget just healthy"),
        pytest.param(False, {"currentHealthy": 0}, 429, id="unready, budget unhealthy"),
        pytest.param(
            False, {"desiredHealthy": 0, "currentHealthy": 0}, 429, id="unready, nothing desired"
        ),
    ],
)
def test_an_exhausted_budget_lets_go(
    world: World, *, ready: bool, budget: dict[str, Any], code: int
) -> None:
    world.pod(ready=ready)
    world.budget(disruptionsAllowed=0, **budget)
    if code:
        assert world.refusal().code == code
    else:
        world.evict()
        assert world.is_going()
        assert world.allowed() == 0


def test_an_unready_pod_that_changes_under_the_eviction_is_429_with_retry_after_ten(
    world: World,
) -> None:
    world.pod(ready=False)
    world.budget(disruptionsAllowed=0)

    def becomes_ready(event: Event) -> None:
        if event.type == "MODIFIED" and find_condition(event.object, "Ready") == world.ready(
            ready=False
        ):
            conditions = [
                world.ready(ready=True),
                find_condition(event.object, "DisruptionTarget"),
            ]
            world.status("pods", "p", conditions=conditions)

    world.store.subscribe(becomes_ready)
    with pytest.raises(StatusError) as refused:
        world.evict()
    assert (refused.value.code, refused.value.retry_after) == (429, 10)
    assert not world.is_going()


@pytest.mark.parametrize(
    ("selector", "protected"),
    [
        pytest.param({}, True, id="an empty selector covers every pod"),
        pytest.param(None, False, id="no selector covers none"),
        pytest.param({"matchLabels": {"app": "db"}}, False, id="another selector"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="an expression"
        ),
    ],
)
def test_which_pods_a_budget_protects(world: World, *, selector: Any, protected: bool) -> None:
    world.pod()
    world.budget(selector=selector, disruptionsAllowed=0)
    if protected:
        assert world.refusal().code == 429
    else:
        world.evict()
        assert world.is_going()


def test_a_budget_of_another_namespace_does_not_count(world: World) -> None:
    world.pod()
    other = {"metadata": {"name": "b", "namespace": "kube-system"}, "spec": {"selector": {}}}
    world.store.create("poddisruptionbudgets", other)
    world.evict()
    assert world.is_going()
