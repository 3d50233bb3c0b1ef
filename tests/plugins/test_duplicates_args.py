"""RemoveDuplicates: its arguments, their defaults and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.api.scope import Namespaces
from reactive_desched.plugins.duplicates import DuplicatesArgs
from reactive_desched.testing.builders import pod
from tests.support.golden import Golden

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]

NAME = "RemoveDuplicates"


def test_without_arguments_all_namespaces_and_owners_count(read_args: Read) -> None:
    args = read_args(NAME, "")

    assert args == DuplicatesArgs(namespaces=Namespaces(), exclude_owner_kinds=())


def test_every_argument_is_read(read_args: Read) -> None:
    args = read_args(NAME, "excludeOwnerKinds: [StatefulSet, Job]\nnamespaces: {exclude: [a, b]}")

    assert isinstance(args, DuplicatesArgs)
    assert args.exclude_owner_kinds == ("StatefulSet", "Job")
    assert args.namespaces.exclude == ("a", "b")


def test_only_the_namespaces_asked_for_are_covered() -> None:
    included = DuplicatesArgs(namespaces=Namespaces(include=("a",)))
    excluded = DuplicatesArgs(namespaces=Namespaces(exclude=("a",)))
    here, there = pod("here", namespace="a"), pod("there", namespace="b")

    assert [args.covers(here) for args in (included, excluded, DuplicatesArgs())] == [
        True,
        False,
        True,
    ]
    assert [args.covers(there) for args in (included, excluded, DuplicatesArgs())] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "namespaces: {include: [a], exclude: [b]}",
            id="both lists of namespaces",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {a: b}}",
            id="a label selector, which this plugin has not",
        ),
        pytest.param(
            "excludeOwnerKind: [Job]",
            id="a mistyped argument",
        ),
        pytest.param(
            "excludeOwnerKinds: Job",
            id="one kind instead of a list",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(
    args: str, golden: Golden, refused: Ask
) -> None:
    assert refused(NAME, args) == [golden()]


def test_all_errors_are_reported_at_once(refused: Ask) -> None:
    lines = refused(NAME, "namespaces: {include: [a], exclude: [b]}\nexcludeOwnerKinds: Job\nx: 1")

    assert [line.split(": ")[0] for line in lines] == ["namespaces", "excludeOwnerKinds", "x"]
