import pytest

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import pdb as coverage_module
from reactive_desched.state.indexes.pdb import PdbIndex
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
