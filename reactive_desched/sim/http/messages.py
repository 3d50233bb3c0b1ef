"""Bodies in and answers out."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sim.http import protobuf
from reactive_desched.sim.http.duplicate_fields import (
    NOTHING_TWICE,
    Twice,
    twice_in_json,
    twice_in_patch,
    twice_in_yaml,
)
from reactive_desched.sim.http.field_validation import Typed, typed_body
from reactive_desched.sim.http.rendering import encode
from reactive_desched.sim.http.yaml_bodies import parse_yaml
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError, bad_request
from reactive_desched.sim.views import View

__all__ = [
    "APPLIED",
    "answer",
    "json_body",
    "media_type",
    "object_body",
    "refusal",
    "said_twice",
    "success",
]

_JSON = "application/json"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
APPLIED = ("application/apply-patch+yaml",)
"""The formats of server-side apply."""
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def answer(
    request: web.Request, obj: Obj, code: int = 200, *, warnings: Iterable[str] = ()
) -> web.Response:
    """Answer with an object; spread over lines when a person seems to be looking."""
    body = encode(obj)
    asked = request.query.get("pretty")
    human = request.headers.get("User-Agent", "").startswith(_HUMAN_AGENTS)
    if asked in ("1", "true") or (asked is None and human):
        body = msgspec.json.format(body, indent=2) + b"\n"
    response = web.Response(
        body=body, status=code, content_type=_JSON, headers={"Cache-Control": "no-cache, private"}
    )
    for text in warnings:
        response.headers.add("Warning", f"299 - {encode(text).decode()}")
    return response


def refusal(error: StatusError) -> web.Response:
    """Answer with the `Status` of a refusal."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    body = encode(error.body())
    return web.Response(body=body, status=error.code, content_type=_JSON, headers=headers)


def success(code: int = 200, details: Obj | None = None) -> Obj:
    """Return the `Status` that says all went well."""
    status: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": details} if details else {**status, "code": code}


async def json_body(request: web.Request) -> Any:
    """Read the body, JSON or protobuf, as a JSON value; an empty one is None."""
    body = await request.read()
    if media_type(request) == protobuf.MEDIA_TYPE:
        return protobuf.decode(body) if body else None
    if not body.strip():
        return None
    if media_type(request) in (YAML, *APPLIED):
        return _yaml(body)
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise bad_request(f"the request body is not JSON: {error}") from error


def _yaml(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)  # JSON is YAML, and what most clients send
    except DECODE_ERRORS:
        pass
    try:
        return parse_yaml(body)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from error


async def object_body(request: web.Request, view: View) -> Typed:
    """Read an object of a kind; raise 415 for another format, 400 for another kind or shape.

    Others run before it is read along its type, and before it is stored: each takes a quarter of a
    second for a pod of 8,000 containers.
    """
    kind = view.resource
    if media_type(request) not in (_JSON, YAML, protobuf.MEDIA_TYPE):
        text = (
            "the body of the request was in an unknown format - accepted media types include:"
            f" {_JSON}, {YAML}, {protobuf.MEDIA_TYPE}"
        )
        raise StatusError(415, "UnsupportedMediaType", text)
    body = await json_body(request)
    if not isinstance(body, dict):
        raise bad_request(f"the request body must be a {kind.kind} object")
    _check_type(body, kind)
    if view.schema is None:
        _check_parts(body, kind)
    twice = await said_twice(request)
    await asyncio.sleep(0)
    read = typed_body(request, view, body, twice)
    await asyncio.sleep(0)
    return read


async def said_twice(request: web.Request) -> Twice:
    """Return what the body of a request has twice, which is one of those that were read."""
    if request.query.get("fieldValidation") == "Ignore":
        return NOTHING_TWICE
    body, media = await request.read(), media_type(request)
    if media == protobuf.MEDIA_TYPE or not body.strip():
        return NOTHING_TWICE
    if media == JSON_PATCH:
        return twice_in_patch(body)
    if media not in (YAML, *APPLIED):
        return twice_in_json(body)
    return twice_in_yaml(body)


def media_type(request: web.Request) -> str:
    """Return the format of the body, in lower case."""
    return request.headers.get("Content-Type", _JSON).partition(";")[0].strip().lower()


def _check_type(body: Obj, kind: Resource) -> None:
    version, name = body.get("apiVersion"), body.get("kind")
    if version not in (None, "", kind.api_version):
        text = f"the API version in the data ({version}) does not match the expected API version"
        raise bad_request(f"{text} ({kind.api_version})")
    if name not in (None, "", kind.kind):
        raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}')


def _check_parts(body: Obj, kind: Resource) -> None:
    """Refuse what could not be decoded into the kind's outer shape."""
    for field in ("metadata", "spec", "status"):
        if body.get(field) is None:
            body.pop(field, None)
        elif not isinstance(body[field], dict):
            raise bad_request(f"{kind.kind} cannot be decoded: {field} must be an object")
