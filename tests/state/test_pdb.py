import pytest

from reactive_desched.model.changes import DisruptionBudgetChanged
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.state.indexes import pdb as coverage_module
from reactive_desched.state.indexes.pdb import Coverage
from reactive_desched.state.store import Table
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
def coverage() -> Coverage:
    COMPARED.clear()
    budgets: Table[PodDisruptionBudget] = Table(
        lambda b: DisruptionBudgetChanged(b.namespace, b.name), lambda b: b.namespace
    )
    budgets.upsert(CountingBudget("shop", "web", selector=LabelSelector({"app": "web"})))
    return Coverage(budgets)


def names(found: list[PodDisruptionBudget]) -> list[str]:
    return [budget.name for budget in found]


def test_siblings_share_one_comparison(coverage: Coverage) -> None:
    assert names(coverage.over(WEB)) == ["web"]
    assert names(coverage.over(SIBLING)) == ["web"]
    assert COMPARED == ["web"]


def test_a_change_of_selectors_makes_it_compare_anew(coverage: Coverage) -> None:
    coverage.over(WEB)
    coverage.selectors_changed("bank")
    coverage.over(WEB)
    assert COMPARED == ["web"]

    coverage.selectors_changed("shop")
    coverage.over(WEB)
    assert COMPARED == ["web", "web"]
    assert coverage._count == 1


def test_at_the_bound_all_is_forgotten_and_asked_again(
    coverage: Coverage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "REMEMBERED", 3)
    others = [pod(name, labels={"app": name}, namespace=f"ns-{name}") for name in "abcdefg"]
    for one in others:
        assert coverage.over(one) == []

    assert names(coverage.over(WEB)) == ["web"]
    assert coverage._count == sum(map(len, coverage._keys.values())) <= 3


def test_a_namespace_forgotten_makes_room_for_others(
    coverage: Coverage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "REMEMBERED", 2)
    coverage.over(WEB)
    for _ in range(5):
        coverage.over(other := pod("x", labels={"app": "x"}, namespace="bank"))
        coverage.selectors_changed("bank")
    coverage.over(other)
    coverage.over(WEB)

    assert COMPARED == ["web"]
