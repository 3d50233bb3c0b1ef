from reactive_desched.model.changes import (
    CSINodeChanged,
    NamespaceChanged,
    PdbChanged,
    PriorityClassChanged,
    PvcChanged,
    PvChanged,
    WorkloadChanged,
)
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    Deployment,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
)
from reactive_desched.state.cluster import ClusterState, Store
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.testing.builders import pod


def budget(name: str, *, allowed: int = 0, uid: str = "u", version: int = 0, app: str = "web"):  # type: ignore[no-untyped-def]  # a PodDisruptionBudget
    selector = LabelSelector({"app": app})
    return PodDisruptionBudget("shop", name, uid, version, selector, allowed)


def table() -> Store[PodDisruptionBudget]:
    return Store(PodDisruptionBudget, IndexHooks(), lambda b: PdbChanged(b.namespace, b.name))


CHANGED = [PdbChanged("shop", "a")]


def test_an_older_version_and_the_same_again_are_ignored() -> None:
    held = table()
    assert held.upsert(budget("a", version=5)) == CHANGED

    assert held.upsert(budget("a", version=5, allowed=1)) == []
    assert held.upsert(budget("a", version=4, allowed=1)) == []
    assert held.upsert(budget("a", version=6, allowed=1)) == CHANGED
    assert held.get("shop/a") == budget("a", version=6, allowed=1)


def test_a_later_version_in_which_nothing_differs_is_kept_and_announces_nothing() -> None:
    held = table()
    held.upsert(budget("a", version=5))

    assert held.upsert(budget("a", version=6)) == []
    assert held.upsert(budget("a", version=5, allowed=1)) == []
    assert held.upsert(budget("a", uid="another", version=6)) == CHANGED


def test_a_deployments_new_status_is_no_change_and_a_budgets_is_one() -> None:
    state = ClusterState()
    for version in (5, 6):
        changes = [
            *state.upsert(Deployment("shop", "web", "u1", version, replicas=3)),
            *state.upsert(budget("a", version=version)),
        ]

    assert changes == CHANGED
    assert state.upsert(Deployment("shop", "web", "u1", 7, replicas=4)) == [WorkloadChanged("u1")]


def test_versions_that_are_no_numbers_are_never_older() -> None:
    held = table()
    held.upsert(budget("a", version=5))

    assert held.upsert(budget("a", allowed=1)) == CHANGED


def test_another_of_the_same_name_is_taken_whatever_its_version() -> None:
    held = table()
    held.upsert(budget("a", version=5))
    reborn = budget("a", uid="reborn", version=3)

    assert held.upsert(reborn) == CHANGED
    assert held.remove(budget("a", version=5)) == []
    assert held.get("shop/a") == reborn
    assert held.remove(reborn) == CHANGED


def test_what_is_not_there_cannot_go() -> None:
    assert table().remove(budget("a")) == []


def test_an_object_without_a_uid_names_the_one_of_its_name() -> None:
    held = table()
    held.upsert(budget("a"))

    assert held.remove(budget("a", uid="")) == CHANGED


def test_each_kind_of_object_has_its_own_change() -> None:
    state = ClusterState()
    things: list[tuple[str, ClusterObject]] = [
        ("namespaces", Namespace("shop")),
        ("priorityclasses", PriorityClass("high")),
        ("poddisruptionbudgets", budget("a")),
        ("persistentvolumeclaims", PersistentVolumeClaim("shop", "data")),
        ("persistentvolumes", PersistentVolume("v1")),
        ("csinodes", CSINode("n1")),
    ]
    changes = [
        [NamespaceChanged("shop")],
        [PriorityClassChanged("high")],
        [PdbChanged("shop", "a")],
        [PvcChanged("shop", "data")],
        [PvChanged("v1")],
        [CSINodeChanged("n1")],
    ]

    assert [state.upsert(thing) for _, thing in things] == changes
    assert [list(state.keys(kind)) for kind, _ in things] == [
        ["shop"],
        ["high"],
        ["shop/a"],
        ["shop/data"],
        ["v1"],
        ["n1"],
    ]
    assert [state.get(kind, thing.key) for kind, thing in things] == [thing for _, thing in things]
    assert [state.remove(thing) for _, thing in things] == changes
    assert [state.get(kind, thing.key) for kind, thing in things] == [None] * 6


def over(state: ClusterState, app: str, namespace: str = "shop") -> list[str]:
    found = state.index(PdbIndex).covering(APPS[app, namespace])
    return [budget.name for budget in found]


APPS = {
    (app, namespace): pod("x", labels={"app": app}, namespace=namespace)
    for app in ("web", "db")
    for namespace in ("shop", "bank")
}


def test_the_budgets_over_a_pod_follow_every_change_of_their_selectors() -> None:
    state = ClusterState()
    assert over(state, "web") == []
    state.upsert(budget("a", version=1))
    state.upsert(budget("b", app="db", version=1))
    assert (over(state, "web"), over(state, "db")) == (["a"], ["b"])

    state.upsert(budget("b", app="web", version=2))
    assert (over(state, "web"), over(state, "db")) == (["a", "b"], [])
    state.remove(budget("a"))
    assert over(state, "web") == ["b"]
    state.upsert(budget("b", uid="reborn", app="db"))
    assert (over(state, "web"), over(state, "db")) == ([], ["b"])


def test_the_budgets_over_a_pod_are_as_they_are_now() -> None:
    state = ClusterState()
    state.upsert(budget("a", version=1))
    over(state, "web")
    state.upsert(newer := budget("a", version=2, allowed=3))

    assert state.index(PdbIndex).covering(APPS["web", "shop"]) == [newer]


def test_budgets_of_another_namespace_are_not_over_it() -> None:
    state = ClusterState()
    state.upsert(budget("a"))

    assert over(state, "web", "bank") == []
