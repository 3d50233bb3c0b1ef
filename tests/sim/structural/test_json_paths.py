from typing import Any

import pytest

from reactive_desched.sim.structural.json_paths import values_at, with_value

OBJ: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "d"}},
    "spec": {"ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53}], "size": 3},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        (".spec.none", []),
        (".spec.ports[0].port", [80]),
        (".spec.ports[-1].port", [53]),
        (".spec.ports[7].port", []),
        (".spec.ports[*].name", ["http", "dns"]),
        ('.spec.ports[?(@.name=="dns")].port', [53]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        (r".metadata.labels.a\.b/c", ["d"]),
        (".metadata.labels['a.b/c']", ["d"]),
        (".spec.size.deeper", []),
    ],
)
def test_a_path_names_values(path: str, expected: list[object]) -> None:
    assert values_at(OBJ, path) == expected


def test_a_field_is_written_along_a_path() -> None:
    assert with_value({"spec": {"a": 1}}, ".spec.scale.replicas", 3) == {
        "spec": {"a": 1, "scale": {"replicas": 3}}
    }
