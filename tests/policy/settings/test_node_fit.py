"""How strictly nodeFit looks is said in our own settings."""

import pytest

from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.policy_texts import load_settings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


@pytest.mark.parametrize(
    ("text", "strength"),
    [
        pytest.param("", "upstream", id="as the SIG descheduler by default"),
        pytest.param("nodeFit: upstream\n", "upstream", id="as upstream"),
        pytest.param("nodeFit: scheduler\n", "scheduler", id="as the kube-scheduler"),
    ],
)
def test_the_strength_of_node_fit(text: str, strength: str) -> None:
    assert load_settings(HEAD + text, "s.yaml").node_fit == strength


def test_another_strength_is_refused_by_place() -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_settings(HEAD + "nodeFit: strong\n", "s.yaml")

    assert "s.yaml:3" in str(caught.value)
    assert "scheduler" in str(caught.value)
    assert "upstream" in str(caught.value)
