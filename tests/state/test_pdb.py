import pytest

from reactive_desched.model.changes import PdbChanged
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.state.indexes import pdb as coverage_module
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.state.store import Store
from reactive_desched.testing.builders import pod


class CountingBudget(PodDisruptionBudget, frozen=True):
    """Writes down which pods it is compared with."""

    def covers(self, pod: Pod) -> bool:
        COMPARED.append(pod.name)
        return super().covers(pod)


COMPARED: list[str] = []
WEB = pod("web", labels={"app": "web"}, namespace="shop")
SIBLING = Pod("shop", "web-2", "web-2", labels=WEB.labels)


@pytest.fixture
def coverage() -> PdbIndex:
    COMPARED.clear()
    budgets: Store[PodDisruptionBudget] = Store(
        lambda b: PdbChanged(b.namespace, b.name), lambda b: b.namespace
    )
    budgets.upsert(CountingBudget("shop", "web", selector=LabelSelector({"app": "web"})))
    return PdbIndex(budgets)


def names(found: list[PodDisruptionBudget]) -> list[str]:
    return [budget.name for budget in found]


def test_siblings_share_one_comparison(coverage: PdbIndex) -> None:
    assert names(coverage.covering(WEB)) == ["web"]
    assert names(coverage.covering(SIBLING)) == ["web"]
    assert COMPARED == ["web"]


def test_a_change_of_selectors_makes_it_compare_anew(coverage: PdbIndex) -> None:
    coverage.covering(WEB)
    coverage.invalidate("bank")
    coverage.covering(WEB)
    assert COMPARED == ["web"]

    coverage.invalidate("shop")
    coverage.covering(WEB)
    assert COMPARED == ["web", "web"]
    assert coverage._cached_label_sets == 1


def test_at_the_bound_all_is_forgotten_and_asked_again(
    coverage: PdbIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "MAX_LABEL_SETS", 3)
    others = [pod(name, labels={"app": name}, namespace=f"ns-{name}") for name in "abcdefg"]
    for one in others:
        assert coverage.covering(one) == []

    assert names(coverage.covering(WEB)) == ["web"]
    assert coverage._cached_label_sets == sum(map(len, coverage._cache.values())) <= 3


def test_a_namespace_forgotten_makes_room_for_others(
    coverage: PdbIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "MAX_LABEL_SETS", 2)
    coverage.covering(WEB)
    for _ in range(5):
        coverage.covering(other := pod("x", labels={"app": "x"}, namespace="bank"))
        coverage.invalidate("bank")
    coverage.covering(other)
    coverage.covering(WEB)

    assert COMPARED == ["web"]
