"""A text is known by its SHA-256; one whose head is misspelt is read on."""

import hashlib
import sys

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source


@pytest.mark.parametrize("missing", [(), ("_sha2", "_sha256")], ids=["Python's", "OpenSSL's"])
def test_a_text_and_its_bytes_have_the_revision_that_sha256sum_shows(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    raw = "größe: 1\n".encode()

    expected = hashlib.sha256(raw).hexdigest()
    assert SourceText(raw, "policy.yaml").sha256 == expected
    assert SourceText(raw.decode(), "policy.yaml").revision == expected[:12]


@pytest.mark.parametrize(
    ("head", "rule"),
    [
        pytest.param(
            "apiVersion: descheduler/v1alpha3\nkind: DeschedulerPolicy\n",
            Rule.UNKNOWN_API_VERSION,
            id="a misspelt apiVersion",
        ),
        pytest.param(
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicies\n",
            Rule.UNKNOWN_KIND,
            id="a misspelt kind",
        ),
    ],
)
def test_what_else_is_wrong_is_said_at_the_first_check_where_the_head_is_misspelt(
    head: str, rule: Rule
) -> None:
    text = f"{head}profile: []\nnodeSelectr: a=b\n"

    errors = check_source(SourceText(text, "policy.yaml"), plugin_registry()).errors

    found = {(each.rule, each.path) for each in errors}
    assert (rule, "apiVersion" if rule is Rule.UNKNOWN_API_VERSION else "kind") in found
    assert (Rule.UNKNOWN_FIELD, "profile") in found
    assert (Rule.UNKNOWN_FIELD, "nodeSelectr") in found


def test_of_a_document_of_another_program_only_its_head_is_wrong() -> None:
    text = "apiVersion: v1\nkind: Service\nprofile: []\n"

    errors = check_source(SourceText(text, "policy.yaml"), plugin_registry()).errors

    assert {each.path for each in errors} == {"apiVersion", "kind"}
