"""The schemas of events over HTTP, so that a consumer can look up what it got."""

import re
from importlib.resources import files
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from reactive_desched.web.router import Router

INDEX: Final = "/schemas/"
_INDEX_FILE: Final = "index.json"
_FILE_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]*\.json", re.ASCII)
_WITH_REVISION: Final = re.compile(r".+\.v\d+\.\d+\.json")
_CACHE_FOREVER: Final = "public, max-age=31536000, immutable"
"""What a name with a revision stands for does not change; `event.v1` and the index may grow."""


def read_schema(name: str) -> bytes | None:
    """Return a schema that comes with the package, by the name of its file; None for another.

    Each is read when a client asks for it: reading all of them takes three milliseconds.
    """
    if _FILE_NAME.fullmatch(name) is None:
        return None
    try:
        return (files("reactive_desched.api") / "schemas" / name).read_bytes()
    except FileNotFoundError:
        return None


def add_routes(router: Router) -> None:
    """Serve the index, and each schema under the name of its file."""

    async def index(_: BaseRequest) -> Response:
        return _schema_response(_INDEX_FILE)

    async def schema(request: BaseRequest) -> Response:
        return _schema_response(request.path.removeprefix(INDEX))

    router.add_get(INDEX.rstrip("/"), index)
    router.add_get(INDEX, index)
    router.add_folder(INDEX, schema)


def _schema_response(name: str) -> Response:
    if (text := read_schema(name)) is None:
        return Response(status=404, text=f"there is no such schema; {INDEX} lists them\n")
    kind = "application/json" if name == _INDEX_FILE else "application/schema+json"
    caching = {"Cache-Control": _CACHE_FOREVER} if _WITH_REVISION.fullmatch(name) else {}
    return Response(body=text, headers={"Content-Type": kind, **caching})
