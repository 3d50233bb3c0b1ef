"""Each change names the object that it is about, as records keep it."""

import pytest

from reactive_desched.model.changes import (
    Change,
    CSINodeChanged,
    MigrationJobChanged,
    MigrationJobEnded,
    NamespaceChanged,
    NodeTaintsChanged,
    PdbChanged,
    PodBound,
    PodsChange,
    PriorityClassChanged,
    PvcChanged,
    PvChanged,
    Resynced,
    TimePassed,
    WorkloadChanged,
)
from reactive_desched.testing.builders import pod

WEB = pod("web", uid="u1", namespace="shop")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (PodBound(WEB), "pod shop/web"),
        (NodeTaintsChanged("n1"), "node n1"),
        (CSINodeChanged("n1"), "node n1"),
        (PdbChanged("shop", "web"), "shop/web"),
        (PvcChanged("shop", "data"), "shop/data"),
        (PvChanged("disk"), "disk"),
        (NamespaceChanged("shop"), "shop"),
        (PriorityClassChanged("high"), "high"),
        (MigrationJobChanged("move"), "move"),
        (MigrationJobEnded("move"), "move"),
        (WorkloadChanged("u1"), ""),
        (PodsChange(("u1", "u2")), ""),
        (Resynced(), ""),
        (TimePassed(), ""),
    ],
)
def test_a_change_names_its_object_where_it_is_a_single_one(change: Change, name: str) -> None:
    assert change.object_name == name
