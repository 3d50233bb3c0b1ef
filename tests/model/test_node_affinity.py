"""Node selectors and node affinity choose the nodes that the scheduler would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
    preferred_weight,
    satisfies_required,
)

LABELS = {"zone": "a", "disk": "ssd", "cores": "8"}
IN_ZONE_A = Requirement("zone", "In", ("a", "b"))
IN_ZONE_C = Requirement("zone", "In", ("c",))
ON_SSD = Requirement("disk", "In", ("ssd",))
NAMED_N1 = Requirement("metadata.name", "In", ("n1",))


def term(*expressions: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions, fields)


EMPTY = term()


@pytest.mark.parametrize(
    ("one", "matches"),
    [
        pytest.param(term(IN_ZONE_A), True, id="an expression that holds"),
        pytest.param(term(IN_ZONE_A, ON_SSD), True, id="two that hold"),
        pytest.param(term(IN_ZONE_C, ON_SSD), False, id="expressions are ANDed"),
        pytest.param(term(Requirement("gpu", "NotIn", ("x",))), True, id="NotIn of no label"),
        pytest.param(term(Requirement("gpu", "DoesNotExist")), True, id="a label that is absent"),
        pytest.param(term(Requirement("disk", "Exists")), True, id="one that is there"),
        pytest.param(term(Requirement("cores", "Gt", ("4",))), True, id="more cores"),
        pytest.param(term(Requirement("cores", "Lt", ("8",))), False, id="not fewer"),
        pytest.param(term(Requirement("zone", "Gt", ("4",))), False, id="a word is no number"),
        pytest.param(term(fields=(NAMED_N1,)), True, id="the node's name"),
        pytest.param(
            term(fields=(Requirement("metadata.name", "In", ("n2",)),)), False, id="another name"
        ),
        pytest.param(
            term(fields=(Requirement("metadata.name", "NotIn", ("n2",)),)), True, id="not that name"
        ),
        pytest.param(term(ON_SSD, fields=(NAMED_N1,)), True, id="an expression and a field"),
        pytest.param(term(IN_ZONE_C, fields=(NAMED_N1,)), False, id="both must hold"),
        pytest.param(EMPTY, False, id="an empty term matches nothing"),
        # What does not parse never matches, whatever else the term says.
        pytest.param(term(ON_SSD, Requirement("gpu", "In")), False, id="In of nothing"),
        pytest.param(term(Requirement("a b", "NotIn", ("x",))), False, id="a key that is none"),
        pytest.param(term(Requirement("gpu", "NotIn", ("a/b",))), False, id="nor such a value"),
        pytest.param(term(Requirement("gpu", "NotNear", ("x",))), False, id="nor such an operator"),
        pytest.param(term(Requirement("gpu", "DoesNotExist", ("x",))), False, id="values too many"),
        pytest.param(
            term(fields=(Requirement("metadata.name", "NotIn", ("n2", "n3")),)),
            False,
            id="a field takes one value",
        ),
        pytest.param(
            term(fields=(Requirement("metadata.name", "Exists"),)), False, id="In or NotIn only"
        ),
        pytest.param(
            term(fields=(Requirement("metadata.uid", "NotIn", ("x",)),)), False, id="and the name"
        ),
    ],
)
def test_a_term_matches_the_node_so(one: NodeSelectorTerm, *, matches: bool) -> None:
    assert one.matches("n1", LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "required", "satisfied"),
    [
        pytest.param({}, None, True, id="no demands"),
        pytest.param({"disk": "ssd"}, None, True, id="a selector that holds"),
        pytest.param({"disk": "ssd", "zone": "c"}, None, False, id="all its labels must"),
        pytest.param({}, [term(IN_ZONE_C), term(ON_SSD)], True, id="terms are ORed"),
        pytest.param({}, [term(IN_ZONE_C)], False, id="one of them must hold"),
        pytest.param({}, [], False, id="no terms at all match no node"),
        pytest.param({}, [EMPTY], False, id="nor does an empty one"),
        pytest.param({}, [EMPTY, term(ON_SSD)], True, id="an empty one does not spoil others"),
        pytest.param(
            {}, [term(Requirement("a", "Near")), term(ON_SSD)], True, id="nor one that is invalid"
        ),
        pytest.param({"zone": "c"}, [term(ON_SSD)], False, id="selector and affinity must hold"),
        pytest.param({"zone": "a"}, [term(IN_ZONE_C)], False, id="affinity and selector too"),
    ],
)
def test_required_means_selector_and_affinity(
    selector: dict[str, str], required: list[NodeSelectorTerm] | None, *, satisfied: bool
) -> None:
    affinity = NodeAffinity(None if required is None else NodeSelector(tuple(required)))

    assert satisfies_required(selector, affinity, "n1", LABELS) is satisfied


def test_a_pod_without_affinity_is_bound_by_its_selector_alone() -> None:
    assert satisfies_required({"disk": "ssd"}, None, "n1", LABELS)
    assert not satisfies_required({"disk": "hdd"}, None, "n1", LABELS)


def test_preferences_do_not_demand() -> None:
    affinity = NodeAffinity(None, (PreferredTerm(100, term(IN_ZONE_C)),))

    assert satisfies_required({}, affinity, "n1", LABELS)


@pytest.mark.parametrize(
    ("wishes", "weight"),
    [
        pytest.param([], 0, id="no wishes"),
        pytest.param([(10, term(IN_ZONE_A)), (5, term(ON_SSD))], 15, id="fulfilled ones add up"),
        pytest.param([(10, term(IN_ZONE_C)), (5, term(ON_SSD))], 5, id="others do not count"),
        pytest.param([(10, EMPTY)], 0, id="an empty preference is not fulfilled"),
        pytest.param([(0, term(ON_SSD))], 0, id="a weight of zero adds nothing"),
        pytest.param([(7, term(fields=(NAMED_N1,)))], 7, id="the node's name may be preferred"),
    ],
)
def test_the_weight_of_a_node_is_that_of_the_preferences_it_meets(
    wishes: list[tuple[int, NodeSelectorTerm]], weight: int
) -> None:
    terms = [PreferredTerm(weight, preference) for weight, preference in wishes]

    assert preferred_weight(terms, "n1", LABELS) == weight


def test_a_term_names_the_labels_it_reads() -> None:
    assert list(term(IN_ZONE_A, ON_SSD, fields=(NAMED_N1,)).label_keys()) == ["zone", "disk"]


# --- properties --------------------------------------------------------------------------------

requirements = st.builds(
    Requirement,
    st.sampled_from(["zone", "disk", "bad key"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Near"]),
    st.lists(st.sampled_from(["a", "b", "5"]), max_size=2).map(tuple),
)
fields = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n1", "n2"]).map(lambda name: (name,)),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(fields, max_size=2).map(tuple),
)
nodes = st.tuples(
    st.sampled_from(["n1", "n2"]),
    st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b", "7"])),
)


@given(st.lists(terms, max_size=3), terms, nodes)
def test_one_more_alternative_never_excludes_a_node(
    some: list[NodeSelectorTerm], more: NodeSelectorTerm, node: tuple[str, dict[str, str]]
) -> None:
    if NodeSelector(tuple(some)).matches(*node):
        assert NodeSelector((*some, more)).matches(*node)


@given(terms, requirements, nodes)
def test_one_more_demand_never_admits_a_node(
    one: NodeSelectorTerm, demand: Requirement, node: tuple[str, dict[str, str]]
) -> None:
    stricter = NodeSelectorTerm((*one.match_expressions, demand), one.match_fields)

    if stricter.matches(*node):
        assert one.matches(*node) or one == EMPTY
