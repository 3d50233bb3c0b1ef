"""Just enough OpenAPI for kubectl to trust the server with validation."""

from aiohttp import web

from reactive_desched.sim.http.discovery import Catalogue
from reactive_desched.sim.http.rendering import encode
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource

__all__ = ["document", "index", "second_version"]

_INFO = {"title": "Simulated Kubernetes", "version": "v1.36"}
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
    paths = {_url(kind): {"patch": _patch(kind)} for kind in kinds if "patch" in kind.verbs}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": {}}}


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


def _patch(kind: Resource) -> Obj:
    """Describe one PATCH; the parameter is what tells kubectl to leave validation to us."""
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        "operationId": f"patch{kind.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
        },
    }
