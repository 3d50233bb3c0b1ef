"""What the reader says of documents that are no policy it can read."""

from collections.abc import Callable

import pytest

Ask = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "p.yaml: there is no DeschedulerPolicy here", id="nothing"),
        pytest.param(
            "# later\n---\n", "p.yaml: there is no DeschedulerPolicy here", id="a comment"
        ),
        pytest.param(
            "- a",
            "p.yaml:1:1: a document must be a mapping of fields, not a list; "
            "begin with apiVersion: descheduler/v1alpha2",
            id="a list",
        ),
        pytest.param(
            "hello",
            "p.yaml:1:1: a document must be a mapping of fields, not a single value; "
            "begin with apiVersion: descheduler/v1alpha2",
            id="a word",
        ),
        pytest.param(
            "kind: DeschedulerPolicy",
            "p.yaml:1:1: apiVersion: is required: without it upstream reads nothing of the "
            "document, and evicts nothing; write apiVersion: descheduler/v1alpha2",
            id="no apiVersion",
        ),
        pytest.param(
            "kind: DeschedulerPolicy\nstrategies: {}",
            "p.yaml:1:1: apiVersion: is required: without it upstream reads nothing of the "
            "document, and evicts nothing; write apiVersion: descheduler/v1alpha1",
            id="no apiVersion above strategies",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2",
            "p.yaml:1:1: kind: is required; write kind: DeschedulerPolicy",
            id="no kind",
        ),
        pytest.param(
            "apiVersion: v1alpha2\nkind: DeschedulerPolicy",
            'p.yaml:1:1: apiVersion: "v1alpha2" is not an apiVersion that is read here; '
            "did you mean descheduler/v1alpha2?",
            id="no group",
        ),
        pytest.param(
            "apiVersion: descheduler/v9\nkind: DeschedulerPolicy",
            'p.yaml:1:1: apiVersion: "descheduler/v9" is not an apiVersion that is read here; '
            "did you mean descheduler/v1alpha2?",
            id="another version",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: DeschedulerPolicy",
            'p.yaml:1:1: apiVersion: "apps/v1" is not an apiVersion that is read here; '
            "this version reads descheduler/v1alpha2, descheduler/v1alpha1 and "
            "reactive-desched/v1alpha1",
            id="another API",
        ),
        pytest.param(
            "apiVersion: descheduler.io/v1alpha1\nkind: DeschedulerPolicy",
            'p.yaml:1:1: apiVersion: "descheduler.io/v1alpha1" is not an apiVersion that is read '
            "here; did you mean descheduler/v1alpha2?",
            id="a group that does not exist",
        ),
        pytest.param(
            "apiVersion: descheduler.io/v1alpha1\nkind: DeschedulerPolicy\nstrategies: {}",
            'p.yaml:1:1: apiVersion: "descheduler.io/v1alpha1" is not an apiVersion that is read '
            "here; did you mean descheduler/v1alpha1?",
            id="a group that does not exist above strategies",
        ),
        pytest.param(
            "schedule: 5m\ndeschedulerPolicy: {profiles: []}",
            "p.yaml:2:1: deschedulerPolicy: this looks like Helm values, not like a policy; write "
            "what is below it in a file that begins with apiVersion: descheduler/v1alpha2 and "
            "kind: DeschedulerPolicy",
            id="Helm values",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\ndata: {policy.yaml: 'kind: DeschedulerPolicy'}",
            'p.yaml:2:1: kind: "ConfigMap" is not a kind that is read here; give the text inside '
            'it, not the ConfigMap around it: it is below data["policy.yaml"]',
            id="a ConfigMap",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulingPolicy",
            'p.yaml:2:1: kind: "DeschedulingPolicy" is not a kind that is read here; '
            "did you mean DeschedulerPolicy?",
            id="a mistyped kind",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\nprofiles: [5]",
            'p.yaml:2:1: kind: "DeschedulerConfiguration" is not a kind that is read here; this '
            "is a file of the koordinator descheduler: write its profiles as a DeschedulerPolicy",
            id="koordinator's kind",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: LowNodeUtilizationArgs",
            'p.yaml:2:1: kind: "LowNodeUtilizationArgs" is not a kind that is read here; '
            "arguments of a plugin belong in pluginConfig of a profile",
            id="arguments as a document",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: Pod",
            'p.yaml:2:1: kind: "Pod" is not a kind that is read here; '
            "this version reads DeschedulerPolicy and ReactiveSettings",
            id="another kind",
        ),
    ],
)
def test_a_document_that_is_no_policy_is_told_what_it_looks_like(
    text: str, told: str, problems: Ask
) -> None:
    (line,) = problems(text)
    assert line.startswith(told)


def test_a_config_map_is_told_apart_from_its_content(problems: Ask) -> None:
    (line,) = problems("apiVersion: v1\nkind: ConfigMap\ndata: {policy.yaml: x}\n")
    assert line == (
        'p.yaml:2:1: kind: "ConfigMap" is not a kind that is read here; '
        "give the text inside it, not the ConfigMap around it"
    )


def test_without_a_version_above_both_formats_it_is_told_which_part_is_which(problems: Ask) -> None:
    line, _ = problems("kind: DeschedulerPolicy\nprofiles: []\nstrategies: {}")
    told = "strategies are descheduler/v1alpha1, profiles are descheduler/v1alpha2"
    assert line.endswith(told)
