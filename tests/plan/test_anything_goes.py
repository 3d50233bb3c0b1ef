"""Whatever a file holds, reading ends in a picture or in words, never in a traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plan.file_snapshot import read_files
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Snapshot

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "a", "name": "b", "ownerReferences": [{"kind": "X", "name": "y"}]},
    "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": 0.5}}}]},
}
TEXT = json.dumps({"kind": "List", "items": [POD, {"kind": "Node", "metadata": {"name": "n"}}]})
YAML = b"kind: Pod\nmetadata: {name: 'b', uid: |\n   x\n   }\n---\n- [1, \"a\\n\"]\n"

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*POD, *POD["metadata"], "items", "x"]), inner, max_size=4
        )
    ),
    max_leaves=15,
)


def looked_at(folder: Path, content: bytes) -> Snapshot | str:
    path = folder / "it"
    path.write_bytes(content)
    try:
        return read_files([str(path)], Progress())
    except ConfigError as error:
        said = str(error)
    assert said.startswith(str(path))
    return said


@quick
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    looked_at(tmp_path, content)


@quick
@given(st.data())
def test_json_and_yaml_with_a_part_replaced(tmp_path: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([TEXT.encode(), YAML]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    patch = data.draw(st.binary(max_size=5) | st.sampled_from([b"{", b"]", b'"', b"\n- ", b"null"]))

    looked_at(tmp_path, text[:start] + patch + text[end:])


@quick
@given(st.lists(any_json, max_size=3), st.sampled_from(["Pod", "Node", "List", "PodList", None]))
def test_any_members(tmp_path: Path, values: list[object], kind: str | None) -> None:
    things = [{**value, "kind": kind} if isinstance(value, dict) else value for value in values]

    looked_at(tmp_path, json.dumps({"items": things}).encode())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"a":' * 200_000, id="objects"),
        pytest.param(b"- " * 200_000, id="YAML"),
        pytest.param(b'{"kind":"List","items":[' * 5000 + b"]}" * 5000, id="lists in lists"),
        pytest.param(b'{"kind":"List","items":[' * 400 + b"]}" * 400, id="lists in fewer lists"),
    ],
)
def test_deep_nesting_is_refused(tmp_path: Path, text: bytes) -> None:
    assert "nested too deeply" in str(looked_at(tmp_path, text))


def test_lists_in_lists_are_read_or_refused_at_any_depth(tmp_path: Path) -> None:
    for depth in (1, 2, 40, *range(200, 300), 600):
        text = b'{"kind":"List","items":[' * depth + b"]}" * depth
        found = looked_at(tmp_path, text)

        assert isinstance(found, Snapshot) or "nested too deeply" in found
