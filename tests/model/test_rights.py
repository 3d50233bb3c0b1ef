"""The rule that a denial of the API server asks for, and the command that adds it."""

import itertools

import pytest

from reactive_desched.model.rights import (
    Right,
    denied_right,
    how_to_grant,
    remedy_for,
    right_to_read,
    with_grant,
)
from tests.support.golden import Golden, verbatim

ACCOUNT = "system:serviceaccount:desched:robot"
EVICTION = verbatim(
    f'pods "web-0" is forbidden: User "{ACCOUNT}" cannot create resource "pods/eviction" in API'
    ' group "" in the namespace "shop"'
)
LEASE = verbatim(
    f'leases.coordination.k8s.io "x" is forbidden: User "{ACCOUNT}" cannot update resource "leases"'
    ' in API group "coordination.k8s.io" in the namespace "desched"'
)
PDBS = verbatim(
    'poddisruptionbudgets.policy is forbidden: User "jane" cannot list resource'
    ' "poddisruptionbudgets" in API group "policy" at the cluster scope'
)
BY_WEBHOOK = verbatim('admission webhook "keep.example" denied the request: not today')


@pytest.mark.parametrize(
    ("message", "right"),
    [
        (EVICTION, Right("", "pods/eviction", ("create",), ACCOUNT)),
        (
            LEASE,
            Right("coordination.k8s.io", "leases", ("get", "create", "update"), ACCOUNT, "desched"),
        ),
        (PDBS, Right("policy", "poddisruptionbudgets", ("list",), "jane")),
        (BY_WEBHOOK, None),
        ("", None),
    ],
    ids=["a right in all namespaces", "one in its own namespace", "a user", "a webhook", "nothing"],
)
def test_the_right_is_read_from_the_words_of_the_denial(message: str, right: Right | None) -> None:
    assert denied_right(message) == right


@pytest.mark.parametrize("message", [EVICTION, LEASE, PDBS], ids=["eviction", "lease", "pdbs"])
def test_a_denial_is_followed_by_the_rule_and_the_command(message: str, golden: Golden) -> None:
    assert with_grant(message).removeprefix(f"{message}; ") == golden()


def test_what_an_admission_plugin_forbids_has_no_rule() -> None:
    assert with_grant(BY_WEBHOOK) == BY_WEBHOOK


@pytest.mark.parametrize(
    ("refusal", "user"),
    [
        (f"GET /apis/policy/v1/poddisruptionbudgets: 403 {PDBS}", "jane"),
        ("watch /apis/policy/v1/poddisruptionbudgets: 403", ""),
        ("list /apis/policy/v1/poddisruptionbudgets: 403 no", ""),
        ("GET /apis/policy/v1/poddisruptionbudgets: 404 not found", None),
        ("GET /apis/policy/v1/poddisruptionbudgets: 401 no 403", None),
        ("the watch is lost", None),
    ],
)
def test_a_forbidden_list_or_watch_asks_for_the_right_to_read(
    refusal: str, user: str | None
) -> None:
    right = right_to_read("policy", "poddisruptionbudgets", refusal)

    if user is None:
        assert right is None
    else:
        assert right == Right("policy", "poddisruptionbudgets", ("list", "watch"), user)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/apis/slo.koordinator.sh/v1alpha1/nodemetrics", id="of a definition"),
        pytest.param("/apis/policy/v1/poddisruptionbudgets", id="of a built-in group"),
        pytest.param("/apis/storage.k8s.io/v1/csinodes", id="of another built-in group"),
        pytest.param("/api/v1/pods", id="of every API server"),
    ],
)
def test_of_a_kind_that_is_not_served_it_is_said_what_serves_it(path: str, golden: Golden) -> None:
    remedies = {
        remedy_for(f"{verb} {path}: {code} no", None)
        for verb, code in itertools.product(("GET", "list", "watch"), (404, 405, 501))
    }

    [remedy] = remedies
    assert remedy == golden()
    assert remedy_for(f"GET {path}: 500 no", None) == ""


def test_several_rights_are_granted_by_one_command(golden: Golden) -> None:
    rights = [Right("policy", "poddisruptionbudgets", ("list", "watch"), ACCOUNT)] * 2
    rights.append(Right("", "pods", ("list", "watch"), ACCOUNT))

    assert how_to_grant(rights) == golden()
    assert how_to_grant(()) == ""
