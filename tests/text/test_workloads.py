"""Workloads have one name for people in every text, and one key for commands."""

import re
from pathlib import Path

import pytest

from reactive_desched.text.workloads import name_of_key, workload_key, workload_name
from tests.support.golden import golden_parts

TESTS = Path(__file__).parents[1]
NAMED_OTHERWISE = re.compile(
    r"(?<![/\w`])(?:Deployment|StatefulSet|ReplicaSet|DaemonSet|Job|ReplicationController)"
    r"(?:/[a-z0-9]| [a-z0-9][a-z0-9.-]* (?:has|owns|wants|is rolling)\b)"
)
"""KIND/NAME, or a kind with a name and without a namespace."""


def test_a_name_has_the_kind_and_the_namespace() -> None:
    assert workload_name("Deployment", "shop", "web") == "Deployment shop/web"
    assert workload_key("Deployment", "shop", "web") == "shop/Deployment/web"


def test_the_owner_of_a_static_pod_is_in_no_namespace() -> None:
    assert workload_name("Node", "kube-system", "n1") == "Node n1"


@pytest.mark.parametrize(
    ("key", "namespace", "name"),
    [
        ("shop/Deployment/web", "", "Deployment shop/web"),
        ("Deployment/web", "shop", "Deployment shop/web"),
        ("Deployment/web", "", "Deployment/web"),
        ("shop", "", "shop"),
        ("", "", ""),
    ],
)
def test_a_key_becomes_a_name(key: str, namespace: str, name: str) -> None:
    assert name_of_key(key, namespace) == name


def test_no_expected_text_names_a_workload_in_another_form() -> None:
    files = [*TESTS.rglob("golden/*.txt"), TESTS / "plan" / "nodes.txt"]
    assert len(files) > 50
    found = [
        f"{path.relative_to(TESTS)}: {match[0]}"
        for path in files
        for _, text in golden_parts(path)
        for match in NAMED_OTHERWISE.finditer(text)
    ]
    assert found == []
