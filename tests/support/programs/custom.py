"""Programs that define a kind: what its schema takes and refuses, its Scale, its columns."""

from typing import Any

from tests.support.programs.objects import Object
from tests.support.two_planes import APPLY, JSON_PATCH, MERGE, Plane, Planes

__all__ = ["CUSTOM"]

DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
SPEC: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3, "format": "int32"},
        "share": {"type": "number", "maximum": 1.5, "exclusiveMinimum": True, "minimum": 0},
        "step": {"type": "integer", "multipleOf": 5, "maximum": 2000000},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
        "port": {"x-kubernetes-int-or-string": True},
        "address": {"type": "string", "format": "ipv4"},
        "since": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 2},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "maxItems": 3},
        "ports": {
            "type": "array",
            "minItems": 1,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": NUMBER, "name": {"type": "string", "default": "http"}},
            },
        },
        "either": {
            "type": "object",
            "properties": {"a": TEXT, "b": TEXT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "maybe": {"type": "string", "nullable": True},
        "least": NUMBER,
        "kept": {"type": "string"},
        "dashed-name": NUMBER,
        "replicas": NUMBER,
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.least) || self.least <= self.size", "message": "least is above size"},
        {"rule": "!has(oldSelf.kept) || has(self.kept)", "message": "kept stays"},
        {
            "rule": "!has(self.dashed__dash__name) || self.dashed__dash__name != 4",
            "messageExpression": "'not of ' + self.name",
            "fieldPath": ".dashed-name",
            "reason": "FieldValueForbidden",
        },
    ],
}
SPEC["properties"]["kept"]["x-kubernetes-validations"] = [
    {"rule": "self == oldSelf", "message": "kept is immutable"}
]
STATUS: Object = {
    "type": "object",
    "properties": {
        "phase": {"type": "string", "enum": ["Ready", "Failed"]},
        "replicas": NUMBER,
        "selector": TEXT,
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "It."},
    {"name": "First", "type": "integer", "jsonPath": ".spec.ports[0].port"},
    {"name": "Web", "type": "integer", "jsonPath": '.spec.ports[?(@.name=="http")].port'},
]


def _definition(group: str) -> Object:
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": COLUMNS,
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "singular": "gadget"},
            "versions": [version],
        },
    }


def _refused(body: Any) -> Any:
    """Return a refusal without the order of its causes, which is that of a map of Go's."""
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return body
    causes = sorted(map(str, (body.get("details") or {}).get("causes") or ()))
    return [body.get("reason"), causes or body.get("message")]


def _defined(planes: Planes) -> tuple[str, Object]:
    """Define Gadgets; return where they are, and one."""
    group = f"{planes.namespace}.example.com"
    place = f"apis/{group}/v1/namespaces/{planes.namespace}/gadgets"
    planes.send("POST", DEFINITIONS, _definition(group), only=lambda body: body["kind"])
    planes.agree("served", lambda plane: plane.send("GET", place).code)
    made = {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    return place, made


def _remove(planes: Planes) -> None:
    group = f"{planes.namespace}.example.com"
    planes.each(lambda plane: plane.send("DELETE", f"{DEFINITIONS}/gadgets.{group}"))


def schemas_of_custom_resources(planes: Planes) -> None:
    """Create and change objects that a schema takes, reads in part, or refuses."""
    place, made = _defined(planes)
    taken: list[Object] = [
        {"name": "abc"},
        {"name": "abc", "size": 4.0, "share": 1, "port": "http", "free": {"x": {"y": [1]}}},
        {"name": "abc", "lost": {"x": 1}, "ports": [{"port": 1, "lost": 2}], "mode": None},
        {"name": "abc", "maybe": None, "labels": {"a": "b"}, "tags": ["a", "b"], "kept": None},
        {"name": "abc", "either": {"a": "x"}, "address": "10.0.0.1", "wait": "5m"},
    ]
    for at, spec in enumerate(taken):
        named = {**made, "metadata": {"name": f"taken-{at}"}}
        planes.send("POST", place, {**named, "spec": spec})
    refused: list[Object] = [
        {},
        {"name": 3},
        {"name": "a"},
        {"name": "ABCDEF"},
        {"name": "abc", "size": 0},
        {"name": "abc", "size": 11},
        {"name": "abc", "size": "x"},
        {"name": "abc", "size": 1.5},
        {"name": "abc", "size": 5000000000},
        {"name": "abc", "share": 0},
        {"name": "abc", "share": 1.75},
        {"name": "abc", "step": 7},
        {"name": "abc", "step": 3000000},
        {"name": "abc", "mode": "other"},
        {"name": "abc", "port": True},
        {"name": "abc", "address": "10.0.0"},
        {"name": "abc", "since": "yesterday"},
        {"name": "abc", "wait": "long"},
        {"name": "abc", "free": []},
        {"name": "abc", "labels": {"a": 1}},
        {"name": "abc", "labels": {"a": "1", "b": "1", "c": "1"}},
        {"name": "abc", "tags": ["a", "b", "a"]},
        {"name": "abc", "tags": ["a", "b", "c", "d"]},
        {"name": "abc", "ports": []},
        {"name": "abc", "ports": [{"name": "x"}]},
        {"name": "abc", "ports": [{"port": 1}, {"port": 1}]},
        {"name": "abc", "either": {}},
        {"name": "abc", "either": {"a": "x", "b": "x"}},
        {"name": "abc", "least": 4},
        {"name": "abc", "dashed-name": 4},
        {"name": "abc", "replicas": -1},
    ]
    for spec in refused:
        planes.send("POST", place, {**made, "spec": spec}, only=_refused)
    planes.send("POST", place, {**made, "spec": []}, only=lambda body: body["reason"])
    strict = f"{place}?fieldValidation=Strict"
    planes.send("POST", strict, {**made, "spec": {"name": "abc", "lost": 1}, "more": 1})
    odd = {**made, "metadata": {"name": "g", "lost": 1}, "spec": {"name": "abc"}}
    planes.send("POST", strict, odd)
    planes.send("POST", place, odd)
    planes.send("PATCH", f"{place}/g", {"spec": {"kept": "this", "lost": 1}}, MERGE)
    planes.send(
        "PATCH", f"{place}/g?fieldValidation=Strict", {"spec": {"lost": 1}}, MERGE, only=_strict
    )
    planes.send("PATCH", f"{place}/g", {"spec": {"size": 12}}, MERGE, only=_refused)
    planes.send("PATCH", f"{place}/g", {"spec": {"kept": "that"}}, MERGE, only=_refused)
    planes.send("PATCH", f"{place}/g", {"spec": {"kept": None}}, MERGE, only=_refused)
    gone = [{"op": "remove", "path": "/spec/name"}]
    planes.send("PATCH", f"{place}/g", gone, JSON_PATCH, only=_refused)
    applied = {**made, "spec": {"name": "abc", "size": 5, "ports": [{"port": 1}]}}
    planes.send("PATCH", f"{place}/g?fieldManager=a&force=true", applied, APPLY, only=_refused)
    wrong = {**made, "spec": {"name": "abc", "mode": "x"}}
    planes.send("PATCH", f"{place}/g?fieldManager=a&force=true", wrong, APPLY, only=_refused)
    status = f"{place}/g/status"
    planes.send("PATCH", status, {"status": {"phase": "Ready", "lost": 1}}, MERGE)
    planes.send("PATCH", status, {"status": {"phase": "Odd"}}, MERGE, only=_refused)
    planes.send("GET", f"{place}?fieldSelector=spec.mode%3Dfast", only=lambda body: body["items"])
    planes.send("GET", f"{place}?fieldSelector=spec.mode%3Dslow", only=_names)
    planes.send("GET", f"{place}?fieldSelector=spec.size%3D3")
    _remove(planes)


def _strict(body: Any) -> Any:
    """Return a refusal without the object that it repeats."""
    return body["message"].partition("strict decoding error")[2]


def _names(body: Any) -> Any:
    return [each["metadata"]["name"] for each in body["items"]]


def changed_schemas(planes: Planes) -> None:
    """Change a schema: what is stored reads by the new one, and what was taken may stay."""
    place, made = _defined(planes)
    planes.send("POST", place, {**made, "spec": {"name": "abc", "least": 3}})
    group = f"{planes.namespace}.example.com"
    stricter = _definition(group)
    spec = stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = dict(spec["properties"])
    fields["least"] = {"type": "integer", "maximum": 2}
    fields["later"] = {"type": "string", "default": "now"}
    spec = {**spec, "properties": fields}
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {
        "spec": spec,
        "status": STATUS,
    }
    path = f"{DEFINITIONS}/gadgets.{group}"
    change = {"spec": {"versions": stricter["spec"]["versions"]}}
    planes.send("PATCH", path, change, MERGE, only=lambda body: body["kind"])

    def later(plane: Plane) -> object:
        return plane.send("GET", f"{place}/g").body.get("spec", {}).get("later")

    planes.agree("the new default", later)
    planes.send("GET", f"{place}/g")
    planes.send("PATCH", f"{place}/g", {"spec": {"size": 7}}, MERGE, only=_refused)
    planes.send("PATCH", f"{place}/g", {"spec": {"least": 4}}, MERGE, only=_refused)
    planes.send("PATCH", f"{place}/g", {"spec": {"least": 1}}, MERGE, only=_refused)
    _remove(planes)


def scales_of_custom_resources(planes: Planes) -> None:
    """Read and write the Scale of a custom resource."""
    place, made = _defined(planes)
    planes.send("POST", place, {**made, "spec": {"name": "abc"}})
    planes.send("GET", f"{place}/g/scale")
    planes.send("PATCH", f"{place}/g", {"spec": {"replicas": 2}}, MERGE)
    planes.send("GET", f"{place}/g/scale")
    counted = {"status": {"replicas": 1, "selector": "app=g"}}
    planes.send("PATCH", f"{place}/g/status", counted, MERGE)
    planes.send("PATCH", f"{place}/g/scale", {"spec": {"replicas": 4}}, MERGE)
    planes.send("GET", f"{place}/g")
    planes.send("PATCH", f"{place}/g/scale", {"spec": {"replicas": -4}}, MERGE, only=_refused)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "g"}}
    named = {**scale, "metadata": {"name": "g", "namespace": planes.namespace}}
    planes.send("PUT", f"{place}/g/scale", {**named, "spec": {"replicas": 5}})
    planes.send("GET", f"{place}/none/scale")
    _remove(planes)


def columns_of_custom_resources(planes: Planes) -> None:
    """Read the table that kubectl prints."""
    place, made = _defined(planes)
    planes.send("POST", place, {**made, "spec": {"name": "abc", "ports": [{"port": 80}]}})
    planes.send("POST", place, {**made, "metadata": {"name": "h"}, "spec": {"name": "abc"}})
    planes.agree("tables", lambda plane: _table(plane, place))
    _remove(planes)


def _table(plane: Plane, place: str) -> object:
    body = plane.send("GET", place, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    columns = [
        [each[field] for field in ("name", "type", "format", "priority")]
        for each in body["columnDefinitions"]
    ]
    return columns, [row["cells"] for row in body["rows"]]


def malformed_definitions(planes: Planes) -> None:
    """Define kinds that no server takes."""
    group = f"{planes.namespace}.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": "gadgets", "kind": "Gadget"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    made = {"metadata": {"name": f"gadgets.{group}"}, "spec": spec}
    without_schema = {key: value for key, value in version.items() if key != "schema"}
    other = {**version, "name": "v2"}
    for spoiled in (
        {**made, "metadata": {"name": f"others.{group}"}},
        {**made, "spec": {**spec, "versions": [without_schema]}},
        {**made, "spec": {**spec, "versions": [{**version, "storage": False}]}},
        {**made, "spec": {**spec, "versions": [version, other]}},
        {**made, "spec": {**spec, "scope": "Everywhere"}},
        {**made, "spec": {**spec, "group": ""}},
        {**made, "spec": {**spec, "names": {"plural": "gadgets"}}},
    ):
        planes.send("POST", DEFINITIONS, spoiled, only=_fields)


def _fields(body: Any) -> Any:
    return sorted(each["field"] for each in (body.get("details") or {}).get("causes") or ())


CUSTOM = (
    schemas_of_custom_resources,
    changed_schemas,
    scales_of_custom_resources,
    columns_of_custom_resources,
    malformed_definitions,
)
