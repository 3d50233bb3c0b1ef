"""Tolerations match taints as the scheduler's filter does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.taints import Taint, Toleration, untolerated

DEDICATED = Taint("dedicated", "NoSchedule", "a")
DRAINING = Taint("dedicated", "NoExecute", "a")
OTHER = Taint("other", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(
            Toleration("dedicated", "Equal", "a", "NoSchedule"), {DEDICATED}, id="all equal"
        ),
        pytest.param(Toleration("dedicated", "Equal", "a"), {DEDICATED, DRAINING}, id="any effect"),
        pytest.param(
            Toleration("dedicated", "", "a"), {DEDICATED, DRAINING}, id="no operator is Equal"
        ),
        pytest.param(
            Toleration("dedicated", "Exists"), {DEDICATED, DRAINING}, id="any value of the key"
        ),
        pytest.param(Toleration("", "Exists"), {DEDICATED, DRAINING, OTHER}, id="everything"),
        pytest.param(
            Toleration("", "Exists", effect="NoExecute"), {DRAINING}, id="every NoExecute"
        ),
        pytest.param(Toleration("dedicated", "Equal", "b"), set(), id="another value"),
        pytest.param(Toleration("dedicated", "Equal"), set(), id="no value is not any value"),
        pytest.param(Toleration("other"), {OTHER}, id="no value equals no value"),
        pytest.param(Toleration("", "Equal", "a"), {DEDICATED, DRAINING}, id="any key of a value"),
        pytest.param(Toleration("dedicated", "exists"), set(), id="operators are case sensitive"),
        pytest.param(Toleration("dedicated", "Near", "a"), set(), id="an unknown operator"),
    ],
)
def test_a_toleration_matches_exactly_these_taints(
    toleration: Toleration, tolerated: set[Taint]
) -> None:
    taints = (DEDICATED, DRAINING, OTHER)

    assert {taint for taint in taints if toleration.tolerates(taint)} == tolerated


@pytest.mark.parametrize(
    ("operator", "own", "taint_value", "matches"),
    [
        pytest.param("Gt", "5", "6", True, id="a larger taint"),
        pytest.param("Gt", "5", "5", False, id="an equal one is not larger"),
        pytest.param("Gt", "5", "10", True, id="as numbers, not as texts"),
        pytest.param("Lt", "5", "-6", True, id="a smaller taint"),
        pytest.param("Lt", "5", "5", False, id="an equal one is not smaller"),
        pytest.param("Gt", "05", "6", False, id="a leading zero is not canonical"),
        pytest.param("Gt", "5", "+6", False, id="nor is a plus sign"),
        pytest.param("Gt", "-0", "6", False, id="nor is minus zero"),
        pytest.param("Gt", "0", "6", True, id="zero is"),
        pytest.param("Gt", "5", "", False, id="no value is no number"),
        pytest.param("Gt", "5", "v6", False, id="nor is a word"),
        pytest.param("Gt", "5", "٦", False, id="nor a digit of another script"),
        pytest.param("Gt", "5", "9223372036854775807", True, id="the largest int64"),
        pytest.param("Gt", "5", "9223372036854775808", False, id="beyond int64"),
    ],
)
def test_comparing_tolerations_read_canonical_integers_only(
    operator: str, own: str, taint_value: str, *, matches: bool
) -> None:
    toleration = Toleration("load", operator, own)

    assert toleration.tolerates(Taint("load", "NoSchedule", taint_value)) is matches


def test_untolerated_taints_come_in_the_nodes_order() -> None:
    tolerations = (Toleration("dedicated", "Equal", "b"), Toleration("dedicated", "", "a"))

    assert list(untolerated(tolerations, (OTHER, DEDICATED, DRAINING))) == [OTHER]
    assert list(untolerated((), (OTHER, DEDICATED))) == [OTHER, DEDICATED]
    assert list(untolerated(tolerations, ())) == []


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        pytest.param(DEDICATED, "dedicated=a:NoSchedule", id="with a value"),
        pytest.param(OTHER, "other:NoSchedule", id="without"),
    ],
)
def test_a_taint_is_written_as_kubectl_takes_it(taint: Taint, text: str) -> None:
    assert str(taint) == text


# A tiny world, so that keys, values and effects often coincide.
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.builds(Taint, st.sampled_from("ab"), effects, st.sampled_from(["", "1", "2"]))
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "odd"]),
    st.sampled_from(["", "1", "2"]),
    st.just("") | effects,
)


@given(st.lists(tolerations, max_size=4), st.lists(taints, max_size=4))
def test_a_taint_is_untolerated_when_no_toleration_matches_it(
    given_tolerations: list[Toleration], given_taints: list[Taint]
) -> None:
    left = [t for t in given_taints if not any(one.tolerates(t) for one in given_tolerations)]

    assert list(untolerated(tuple(given_tolerations), given_taints)) == left


@given(st.lists(tolerations, max_size=4), tolerations, st.lists(taints, max_size=4))
def test_one_more_toleration_never_makes_a_node_worse(
    some: list[Toleration], more: Toleration, given_taints: list[Taint]
) -> None:
    before = set(untolerated(tuple(some), given_taints))

    assert set(untolerated((*some, more), given_taints)) <= before
