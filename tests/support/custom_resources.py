"""A CustomResourceDefinition, for tests of what serves its kind."""

from typing import Any

__all__ = ["definition"]

_PART = {"type": "object", "properties": {"kind": {"type": "string", "default": "plain"}}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "parts": {"type": "array", "items": _PART},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def definition(plural: str = "widgets", group: str = "example.com", **spec: Any) -> dict[str, Any]:
    """Return the definition of Widgets in two versions, of which v1 is stored."""
    versions: list[dict[str, Any]] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": _SCHEMA},
            "subresources": {"status": {}},
        }
        for name in ("v1", "v1beta1")
    ]
    names = {"plural": plural, "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": versions,
            **spec,
        },
    }
