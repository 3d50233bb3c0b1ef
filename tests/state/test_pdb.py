import pytest

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import pdb as coverage_module
from reactive_desched.state.indexes.pdb import PARTS_PER_STEP, PdbIndex
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.testing.builders import pod

COMPARED: list[str] = []
WEB = pod("web", labels={"app": "web"}, namespace="shop")
SIBLING = Pod("shop", "web-2", "web-2", labels=WEB.labels)


@pytest.fixture
def state() -> ClusterState:
    COMPARED.clear()
    state = ClusterState()
    state.upsert(PodDisruptionBudget("shop", "web", selector=LabelSelector({"app": "web"})))
    return state


@pytest.fixture
def coverage(state: ClusterState, monkeypatch: pytest.MonkeyPatch) -> PdbIndex:
    covers = PodDisruptionBudget.covers

    def counted(pdb: PodDisruptionBudget, pod: Pod) -> bool:
        COMPARED.append(pod.name)
        return covers(pdb, pod)

    monkeypatch.setattr(PodDisruptionBudget, "covers", counted)
    return state.index(PdbIndex)


def names(found: list[PodDisruptionBudget]) -> list[str]:
    return [budget.name for budget in found]


def test_siblings_share_one_comparison(coverage: PdbIndex) -> None:
    assert names(coverage.covering(WEB)) == ["web"]
    assert names(coverage.covering(SIBLING)) == ["web"]
    assert COMPARED == ["web"]


def test_a_change_of_selectors_makes_it_compare_anew(
    coverage: PdbIndex, state: ClusterState
) -> None:
    coverage.covering(WEB)
    state.upsert(PodDisruptionBudget("bank", "other"))
    coverage.covering(WEB)
    assert COMPARED == ["web"]

    state.upsert(
        PodDisruptionBudget("shop", "web", selector=LabelSelector({"app": "web", "x": "y"}))
    )
    coverage.covering(WEB)
    assert COMPARED == ["web", "web"]
    assert coverage._cached_label_sets == 1


def test_at_the_bound_all_is_forgotten_and_asked_again(
    coverage: PdbIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "MAX_LABEL_SETS", 3)
    others = [pod(name, labels={"app": name}, namespace="shop") for name in "abcdefg"]
    for one in others:
        assert coverage.covering(one) == []

    assert names(coverage.covering(WEB)) == ["web"]
    assert coverage._cached_label_sets == sum(map(len, coverage._cache.values())) <= 3


def test_a_namespace_forgotten_makes_room_for_others(
    coverage: PdbIndex, state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "MAX_LABEL_SETS", 2)
    coverage.covering(WEB)
    for turn in range(5):
        coverage.covering(other := pod("x", labels={"app": "x"}, namespace="bank"))
        state.upsert(PodDisruptionBudget("bank", "other", uid=str(turn)))
        state.remove(PodDisruptionBudget("bank", "other"))
    coverage.covering(other)
    coverage.covering(WEB)

    assert COMPARED == ["web"]


def many_budgets(state: ClusterState) -> PdbIndex:
    """A namespace with 500 budgets of 40 parts each, of which the last one covers WEB."""
    other = {f"k{part}": "v" for part in range(40)}
    for number in range(500):
        selector = LabelSelector({"app": "web"} if number == 499 else other)
        state.upsert(PodDisruptionBudget("crowd", f"b{number}", selector=selector))
    return state.index(PdbIndex)


CROWDED = pod("web", labels={"app": "web"}, namespace="crowd")


def test_an_evaluation_has_the_answer_about_many_budgets_in_steps(state: ClusterState) -> None:
    coverage = many_budgets(state)
    long_answers = state.index(PodAffinity).queries.long_answers

    with long_answers, pytest.raises(AnswerTakesLong) as asked:
        coverage.covering(CROWDED)

    assert len(list(asked.value.steps)) > 500 * 40 / PARTS_PER_STEP - 2
    with long_answers:
        assert names(coverage.covering(CROWDED)) == ["b499"]


def test_what_is_asked_outside_an_evaluation_is_answered_at_once(state: ClusterState) -> None:
    assert names(many_budgets(state).covering(CROWDED)) == ["b499"]


@pytest.mark.parametrize("removed", [False, True])
def test_a_selector_that_changes_between_two_steps_counts_and_the_answer_comes_then(
    state: ClusterState, *, removed: bool
) -> None:
    coverage = many_budgets(state)
    long_answers = state.index(PodAffinity).queries.long_answers
    with long_answers, pytest.raises(AnswerTakesLong) as asked:
        coverage.covering(CROWDED)
    next(asked.value.steps)

    if removed:
        state.remove(PodDisruptionBudget("crowd", "b499"))
    else:
        state.upsert(PodDisruptionBudget("crowd", "b0", selector=LabelSelector({"app": "web"})))
    for _ in asked.value.steps:
        pass

    with long_answers:
        found = names(coverage.covering(CROWDED))
    assert sorted(found) == ([] if removed else ["b0", "b499"])
