"""OpenAPI for kubectl: `explain`, and enough to trust the server with validation."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from aiohttp import web

from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.rendering import encode
from reactive_desched.sim.http.schema import message_for, named_fields
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource

__all__ = ["document", "index", "second_version"]

_INFO = {"title": "Simulated Kubernetes", "version": "v1.36"}
_REFERENCE, _PREFIX = "#/components/schemas/", "io.k8s.api."
_REFERENCE_PAGES = (
    "These are the fields that the simulated cluster takes. More of what each means is said in"
    " https://kubernetes.io/docs/reference/kubernetes-api/"
)
_OF_THE_MESSAGE, _OF_ANY_MESSAGE = "_", "*"
_BASE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "Q": "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "I": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    }
)
_BASE_SCHEMAS: Mapping[str, Obj] = MappingProxyType(
    {
        _BASE_NAMES["Q"]: {"oneOf": [{"type": "string"}, {"type": "number"}]},
        _BASE_NAMES["I"]: {
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        },
    }
)
_SCALARS: Mapping[str, Obj] = MappingProxyType(
    {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "b": {"type": "boolean"},
        "d": {"type": "number", "format": "double"},
        "y": {"type": "string", "format": "byte"},
        "T": {"type": "string", "format": "date-time"},
        "U": {"type": "string", "format": "date-time"},
        "D": {"type": "string"},
        "J": {"type": "object"},
    }
)
_METADATA_ALONE = ""
"""The message of a kind of which the table holds only the metadata."""

_TYPE_FIELDS = ("apiVersion", "kind")
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def index(catalogue: Catalogue) -> Obj:
    """Answer `/openapi/v3`: where the document of each group and version is."""
    paths = {}
    for group, version in catalogue.group_versions():
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash=sim"}
    return {"paths": paths}


def document(catalogue: Catalogue, path: str) -> Obj | None:
    """Answer `/openapi/v3/{path}`, or None when that group and version is not served."""
    match path.strip("/").split("/"):
        case ["api", version]:
            group = ""
        case ["apis", group, version]:
            pass
        case _:
            return None
    kinds = catalogue.kinds_of(group, version)
    if not kinds:
        return None
    paths = {_url(kind): _operations(kind) for kind in kinds}
    parts = {"schemas": _schemas(catalogue, kinds)}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": parts}


def second_version(accept: str) -> web.Response:
    """Answer `/openapi/v2`, which kubectl reads to check lists: it then leaves them to us.

    The document describes nothing; in protobuf that is no bytes at all.
    """
    if "protobuf" in accept:
        return web.Response(content_type=_PROTOBUF)
    empty = {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
    return web.Response(body=encode(empty), content_type="application/json")


def _url(kind: Resource) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{within}/{kind.plural}/{{name}}"


def _operations(kind: Resource) -> Obj:
    """Describe what kubectl looks for: which kind a URL serves, and whether PATCH validates."""
    found = {"get": _operation(kind, "get", "get", [])} if "get" in kind.verbs else {}
    if "patch" in kind.verbs:
        # The last parameter is what tells kubectl to leave validation to us.
        names = ("dryRun", "fieldManager", "fieldValidation")
        found["patch"] = _operation(kind, "patch", "patch", names)
    if not found:
        found["post"] = _operation(kind, "create", "post", [])
    return found


def _operation(kind: Resource, verb: str, action: str, queried: Iterable[str]) -> Obj:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in queried
    ]
    return {
        "operationId": f"{verb}{kind.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }


def _gvk(kind: Resource) -> Obj:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schemas(catalogue: Catalogue, kinds: Iterable[Resource]) -> Obj:
    """Describe kinds and every message inside them, from the table that bodies are read with."""
    found: Obj = dict(_BASE_SCHEMAS)
    for kind in kinds:
        message = message_for(kind.api_version, kind.kind)
        schema = listed = _schema(_METADATA_ALONE) if message is None else _schema(message)
        view = catalogue.all_kinds.view(kind.group, kind.version, kind.plural)
        if view is not None and view.schema is not None:
            own = view.schema.openapi
            schema = {**own, "properties": (own.get("properties") or {}) | listed["properties"]}
        types = {name: {**_SCALARS["s"], **_description("", name)} for name in _TYPE_FIELDS}
        own_text = schema.get("description", f"{kind.kind}.")
        found[f"{_PREFIX}{kind.group or 'core'}.{kind.version}.{kind.kind}"] = {
            "type": "object",
            "description": own_text if kind.is_custom else f"{own_text} {_REFERENCE_PAGES}",
            "properties": types | schema["properties"],
            "x-kubernetes-group-version-kind": [_gvk(kind)],
        }
        for needed in _messages_in(listed):
            _add_message(needed, found)
    return found


def _add_message(message: str, found: Obj) -> None:
    if f"{_PREFIX}{message}" in found:
        return
    found[f"{_PREFIX}{message}"] = schema = _schema(message)
    for needed in _messages_in(schema):
        _add_message(needed, found)


def _messages_in(schema: Obj) -> Iterator[str]:
    """Yield the messages that the fields of a schema refer to."""
    for field in schema["properties"].values():
        inner = field.get("items") or field.get("additionalProperties") or field
        inner = inner.get("items") or inner
        for part in inner.get("allOf", ()):
            name = part["$ref"].removeprefix(_REFERENCE)
            if name not in _BASE_SCHEMAS:
                yield name.removeprefix(_PREFIX)


def _schema(message: str) -> Obj:
    if message == _METADATA_ALONE:
        kinds = {"metadata": "@meta.ObjectMeta"}
    else:
        kinds = {name: field.kind for name, field in named_fields(message).items()}
    fields = {name: {**_field(kind), **_description(message, name)} for name, kind in kinds.items()}
    return {"type": "object", **_description(message, _OF_THE_MESSAGE), "properties": fields}


def _description(message: str, field: str) -> Obj:
    texts = _texts()
    text = texts.get(message, {}).get(field) or texts[_OF_ANY_MESSAGE].get(field)
    return {"description": text} if text else {}


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    """Read what is said of messages and their fields when a client first asks."""
    text = files("reactive_desched.sim.http").joinpath("field_texts.toml").read_text("utf-8")
    return tomllib.loads(text)


def _field(kind: str) -> Obj:
    """Describe a field by the letters of the table."""
    form, inner = kind[0], kind[1:]
    if form == "*":
        return {"type": "array", "items": _field(inner)}
    if form == "%":
        return {"type": "object", "additionalProperties": _field(inner)}
    name = _BASE_NAMES.get(form) or (f"{_PREFIX}{inner}" if form == "@" else "")
    return {"allOf": [{"$ref": f"{_REFERENCE}{name}"}]} if name else dict(_SCALARS[form])
