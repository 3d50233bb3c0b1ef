"""How evenly pods are to be spread over zones, and whose places count for that."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ZONE_LABEL, ClusterObject, Pod, TopologySpreadConstraint
from reactive_desched.model.spread import SPREAD_LABEL_MISSING, SPREAD_VIOLATED
from reactive_desched.testing.builders import node, pod, with_spec

KeptOff = Callable[..., str | None]
WEB = {"app": "web"}
MOVER = pod("mover", on="n1", labels=WEB)
RIVAL = pod("rival", on="n2", labels=WEB)
SECOND = pod("second", on="n1", labels=WEB)
ZONES = node("n1", zone="a"), node("n2", zone="b")
CHOICE = node("n1", zone="a"), node("n2", zone="b", labels={"d": "1"})


def even(max_skew: int = 1, key: str = ZONE_LABEL, **more: Any) -> Pod:  # any of its fields
    """Return the mover, to be spread evenly over the zones, or as told."""
    constraint = TopologySpreadConstraint(
        max_skew, key, **{"label_selector": LabelSelector(WEB), **more}
    )
    return with_spec(MOVER, topology_spread_constraints=(constraint,))


def choosy(mover: Pod) -> Pod:
    return with_spec(mover, node_selector={"d": "1"})


@pytest.mark.parametrize(
    ("candidate", "things", "why"),
    [
        pytest.param(
            even(), [node("n1", zone="a"), node("n2", zone="a")], None, id="a single zone is even"
        ),
        pytest.param(
            even(),
            [*ZONES, RIVAL],
            SPREAD_VIOLATED,
            id="its own place does not count: its zone is empty",
        ),
        pytest.param(even(), [*ZONES, RIVAL, SECOND], None, id="one in each zone"),
        pytest.param(even(2), [*ZONES, RIVAL], None, id="a skew of two"),
        pytest.param(
            even(),
            [*ZONES, replace(RIVAL, deletion_s=1)],
            None,
            id="who is being deleted does not count",
        ),
        pytest.param(
            even(min_domains=3),
            [*ZONES, RIVAL, SECOND],
            SPREAD_VIOLATED,
            id="too few domains count as if one were empty",
        ),
        pytest.param(
            even(key="rack"), [node("n2")], SPREAD_LABEL_MISSING, id="spread over a missing label"
        ),
        pytest.param(
            even(when_unsatisfiable="ScheduleAnyway"),
            [*ZONES, RIVAL],
            None,
            id="a soft constraint",
        ),
        pytest.param(
            even(label_selector=LabelSelector()),
            [*ZONES, RIVAL],
            None,
            id="an empty selector counts nobody",
        ),
        pytest.param(
            replace(even(match_label_keys=("v",)), labels={**WEB, "v": "2"}),
            [*ZONES, replace(RIVAL, labels={**WEB, "v": "1"})],
            None,
            id="label keys to match: another version",
        ),
        pytest.param(
            even(node_taints_policy="Honor"),
            [node("n1", "x:NoSchedule", zone="a"), node("n2", zone="b"), RIVAL],
            None,
            id="a tainted zone is none, if taints are honoured",
        ),
        pytest.param(
            choosy(even()), [*CHOICE, RIVAL], None, id="nodes it may not go to make no zone"
        ),
        pytest.param(
            choosy(even(node_affinity_policy="Ignore")),
            [*CHOICE, RIVAL],
            SPREAD_VIOLATED,
            id="but for a policy to ignore that",
        ),
    ],
)
def test_whether_the_other_node_fits(
    kept_off: KeptOff, candidate: Pod, things: list[ClusterObject], why: str | None
) -> None:
    assert kept_off(candidate, things) == (None if why is None else str(why))
