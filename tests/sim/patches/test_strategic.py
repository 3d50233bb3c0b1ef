from typing import Any

import pytest

from reactive_desched.sim.patches import apply_strategic_patch
from reactive_desched.sim.status import StatusError

A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        pytest.param({"x": {"a": 1}}, {"x": {"b": 2}}, {"x": {"a": 1, "b": 2}}, id="maps merge"),
        pytest.param({"x": 1, "y": 2}, {"x": None}, {"y": 2}, id="null deletes"),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "b", "image": "2"}]},
            {"containers": [A, {"name": "b", "image": "2"}]},
            id="containers merge by name",
        ),
        pytest.param(
            {"containers": [A]},
            {"containers": [B]},
            {"containers": [A, B]},
            id="a new container is added",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [B]},
            id="a container is deleted",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": [{"name": "c"}]},
            id="the list is replaced",
        ),
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]},
            id="conditions merge by type",
        ),
        pytest.param(
            {"taints": [{"key": "a"}, {"key": "b"}]},
            {"taints": [{"key": "c"}]},
            {"taints": [{"key": "c"}]},
            id="taints are replaced whole",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="tolerations are replaced whole",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"]},
            {"finalizers": ["a", "b", "c"]},
            id="finalizers merge as a set",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="a finalizer is deleted",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [B, A]},
            id="the order is set",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="only some keys are retained",
        ),
        pytest.param(
            {"selector": {"a": 1}},
            {"selector": {"$patch": "replace", "b": 2}},
            {"selector": {"b": 2}},
            id="a map is replaced",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
            {"ports": [{"containerPort": 80, "name": "web"}]},
            {"ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]},
            id="container ports merge by number",
        ),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": 1}]},
            {"ports": [{"port": 80, "targetPort": 2}]},
            {"ports": [{"port": 80, "targetPort": 2}]},
            id="service ports merge by number",
        ),
    ],
)
def test_a_strategic_patch(
    target: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = repr(target)
    assert apply_strategic_patch(target, patch) == expected
    assert repr(target) == before


def test_an_item_without_its_key_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match="needs its key: name") as refused:
        apply_strategic_patch({"containers": [A]}, {"containers": [{"image": "2"}]})
    assert refused.value.code == 400


def test_a_patch_must_be_an_object() -> None:
    with pytest.raises(StatusError):
        apply_strategic_patch({}, [1])
