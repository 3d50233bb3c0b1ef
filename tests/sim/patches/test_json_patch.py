from typing import Any

import pytest

from reactive_desched.sim.patches import apply_json_patch
from reactive_desched.sim.status import StatusError

TARGET = {"a": {"b": 1}, "list": [1, 2, 3], "x/y": {"~": 0}}


def patched(*steps: dict[str, Any]) -> dict[str, Any]:
    before = repr(TARGET)
    result = apply_json_patch(TARGET, list(steps))
    assert repr(TARGET) == before
    return result


@pytest.mark.parametrize(
    ("step", "at", "expected"),
    [
        ({"op": "add", "path": "/a/c", "value": 2}, "a", {"b": 1, "c": 2}),
        ({"op": "add", "path": "/list/1", "value": 9}, "list", [1, 9, 2, 3]),
        ({"op": "add", "path": "/list/-", "value": 9}, "list", [1, 2, 3, 9]),
        ({"op": "replace", "path": "/a/b", "value": 2}, "a", {"b": 2}),
        ({"op": "replace", "path": "/a/c", "value": 2}, "a", {"b": 1, "c": 2}),
        ({"op": "replace", "path": "/list/0", "value": 9}, "list", [9, 2, 3]),
        ({"op": "remove", "path": "/list/0"}, "list", [2, 3]),
        ({"op": "remove", "path": "/a/b"}, "a", {}),
        ({"op": "copy", "from": "/a", "path": "/c"}, "c", {"b": 1}),
        ({"op": "move", "from": "/a/b", "path": "/c"}, "c", 1),
        ({"op": "test", "path": "/a/b", "value": 1}, "a", {"b": 1}),
        ({"op": "replace", "path": "/x~1y/~0", "value": 1}, "x/y", {"~": 1}),
    ],
)
def test_an_operation(step: dict[str, Any], at: str, expected: Any) -> None:
    assert patched(step)[at] == expected


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"op": "test", "path": "/a/b", "value": 2}, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/nothing"}, id="removing what is not there"),
        pytest.param({"op": "replace", "path": "/no/where", "value": 1}, id="replacing nothing"),
        pytest.param({"op": "add", "path": "/list/7", "value": 1}, id="adding past the end"),
        pytest.param({"op": "add", "path": "/no/where", "value": 1}, id="adding below nothing"),
        pytest.param({"op": "fly", "path": "/a"}, id="an unknown operation"),
    ],
)
def test_a_patch_that_does_not_apply_is_invalid(step: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refused:
        patched(step)
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


@pytest.mark.parametrize("patch", [{"op": "add"}, [1], [{"op": "remove", "path": "a"}]])
def test_a_malformed_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch(TARGET, patch)
    assert refused.value.code == 400
