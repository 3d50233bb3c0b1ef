import pytest

from reactive_desched.cli.kubectl_names import hint_for, kind_of, owner_key, question_of
from reactive_desched.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "namespace", "expected"),
    [
        pytest.param(["shop/web-1"], None, {"pod": "shop/web-1"}, id="namespace and pod"),
        pytest.param(["web-1"], "shop", {"pod": "shop/web-1"}, id="-n and pod"),
        pytest.param(["pod/web-1"], "shop", {"pod": "shop/web-1"}, id="pod/NAME"),
        pytest.param(["pods/web-1"], "shop", {"pod": "shop/web-1"}, id="pods/NAME"),
        pytest.param(["po", "web-1"], "shop", {"pod": "shop/web-1"}, id="po NAME"),
        pytest.param(["u-1-2"], None, {"pod": "u-1-2"}, id="a uid"),
        pytest.param(["deploy/web"], "shop", {"owner": "shop/Deployment/web"}, id="deploy/NAME"),
        pytest.param(["deployment", "web"], "shop", {"owner": "shop/Deployment/web"}, id="a kind"),
        pytest.param(
            ["deployment.apps/web"], "shop", {"owner": "shop/Deployment/web"}, id="-o name"
        ),
        pytest.param(["sts/db"], "shop", {"owner": "shop/StatefulSet/db"}, id="sts/NAME"),
        pytest.param(["job.batch/load"], "etl", {"owner": "etl/Job/load"}, id="job.batch/NAME"),
        pytest.param(
            ["ds", "kube-system/log"], None, {"owner": "kube-system/DaemonSet/log"}, id="ds NAME"
        ),
        pytest.param(
            ["Deployment shop/web"], None, {"owner": "shop/Deployment/web"}, id="as texts name it"
        ),
        pytest.param(["Rollout/web"], "shop", {"owner": "shop/Rollout/web"}, id="a custom kind"),
        pytest.param(["node/n1"], None, {"node": "n1"}, id="node/NAME"),
        pytest.param(["no", "n1"], None, {"node": "n1"}, id="no NAME"),
        pytest.param(["no/n1"], None, {"pod": "no/n1"}, id="a namespace named no"),
        pytest.param(["jobs/web-1"], None, {"pod": "jobs/web-1"}, id="a namespace named jobs"),
    ],
)
def test_an_object_is_named_as_kubectl_names_it(
    words: list[str], namespace: str | None, expected: dict[str, str]
) -> None:
    assert question_of(words, namespace) == expected


@pytest.mark.parametrize(
    ("words", "namespace", "said"),
    [
        pytest.param(["a", "b", "c"], None, "one pod at a time", id="three words"),
        pytest.param(["web-1", "web-2"], None, "one pod at a time", id="two pods"),
        pytest.param(["shop/web-1"], "shop", "leave -n out", id="two namespaces"),
        pytest.param(["node/n1"], "shop", "a node has no namespace", id="the namespace of a node"),
        pytest.param(["deploy", "web"], None, "-n NAMESPACE", id="no namespace"),
    ],
)
def test_what_names_no_object_is_refused(
    words: list[str], namespace: str | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        question_of(words, namespace)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["Deployment", "shop/web"], "shop/Deployment/web"),
        (["Deployment shop/web"], "shop/Deployment/web"),
        (["sts", "shop/db"], "shop/StatefulSet/db"),
        (["Rollout", "shop/web"], "shop/Rollout/web"),
        (["shop/Deployment/web"], "shop/Deployment/web"),
        (["0a1b-uid"], "0a1b-uid"),
    ],
)
def test_a_workload_is_named_as_texts_name_it_or_by_its_key(words: list[str], key: str) -> None:
    assert owner_key(words) == key


@pytest.mark.parametrize(
    "words", [["Deployment", "web"], ["shop/web", "shop/db"], ["a", "b/c", "d"], [""]]
)
def test_words_that_name_no_workload_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="KIND NAMESPACE/NAME"):
        owner_key(words)


def test_a_word_that_was_read_as_a_namespace_may_be_a_kind() -> None:
    assert hint_for(["deploy/web"]).endswith("-n NAMESPACE")
    assert hint_for(["no/n1"]).endswith("write node/n1")
    assert hint_for(["shop/web"]) == ""
    assert hint_for(["web"]) == ""
    assert hint_for(["node/n1"]) == hint_for(["pods/web"]) == ""  # read as kinds


def test_a_word_of_no_kind_is_none() -> None:
    assert kind_of("shop") == kind_of("URL") == kind_of("") == ""
    assert kind_of("Deployments") == "Deployment"
