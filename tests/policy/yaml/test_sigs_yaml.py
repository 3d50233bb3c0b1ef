"""Both readers of YAML understand what sigs.k8s.io/yaml does, by its own answers.

`sigs_yaml/answers.jsonl` holds them: what sigs.k8s.io/yaml v1.6.0 (and v1.4.0, the same) makes of
each document; `sigs_yaml/main.go` asks it.
"""

import io
import json
import math
import re
from pathlib import Path
from typing import Any, Final

from reactive_desched.errors import ConfigError
from reactive_desched.plan.yaml_text import yaml_to_json
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.tree import to_plain

Answer = dict[str, str]  # a document, and its JSON or the error


def answers() -> list[Answer]:
    file = Path(__file__).parent / "sigs_yaml" / "answers.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


ANSWERS: Final = answers()
REFUSED: Final = "refused"
COLLECTION_TAGS: Final = ("!", "!!map", "!!seq")
SCALAR_TAGS: Final = ("!", "!!bool", "!!float", "!!int", "!!null", "!!str")


def same(ours: Any, theirs: Any) -> bool:  # Any: JSON
    """Compare JSON; a number is the same as a float, for they have no other large ones."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        return ours == theirs or math.isclose(ours, theirs, rel_tol=0)
    return bool(ours == theirs)


def read_objects(text: str) -> Any:
    written = io.BytesIO()
    try:
        yaml_to_json(io.BytesIO(text.encode()), written, "it.yaml", lambda _: None)
    except ConfigError:
        return REFUSED
    lines = written.getvalue().splitlines() or [b"null"]  # an empty file has no document
    return json.loads(lines[0])


def read_policy(text: str) -> Any:
    try:
        trees = read_documents(text, "it.yaml")
    except PolicyErrors:
        return REFUSED
    return to_plain(trees[0]) if trees else None


def differences(read: Any, asked: list[Answer]) -> dict[str, tuple[Any, Any]]:
    found = {}
    for each in asked:
        ours = read(each["yaml"])
        theirs = json.loads(each["json"]) if "json" in each else REFUSED
        if not same(ours, theirs):
            found[each["yaml"]] = (ours, theirs)
    return found


def test_plan_reads_objects_as_kubectl_does_and_refuses_what_stands_for_something_else() -> None:
    found = differences(read_objects, ANSWERS)
    assert {text: found[text] for text, (ours, _) in found.items() if ours != REFUSED} == {}
    assert {text for text in found if "*x" not in text and "<<: " not in text} == set()


def is_written_in_no_policy(text: str) -> bool:
    """Whether it has a tag that a policy may not have, or a key that one reads as it is written."""
    tags = re.findall(r"(![^ ]*) *([{[]?)", text)
    return text.endswith(": v\n") or any(
        tag not in (COLLECTION_TAGS if opens else SCALAR_TAGS) for tag, opens in tags
    )


def test_a_policy_is_read_as_by_the_sig_descheduler_where_it_is_not_refused() -> None:
    asked = [each for each in ANSWERS if not is_written_in_no_policy(each["yaml"])]
    assert len(asked) > len(ANSWERS) / 2
    assert differences(read_policy, asked).keys() == {"a: 1\na: 2\n"}  # which is an error later
