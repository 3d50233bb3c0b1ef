"""The schemas of events over HTTP, so that a consumer can look up what it got."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from reactive_desched.web.router import Router

INDEX: Final = "/schemas/"
_INDEX_FILE: Final = "index.json"
_SUFFIX: Final = ".json"
_WITH_REVISION: Final = re.compile(r".+\.v\d+\.\d+\.json")
_CACHE_FOREVER: Final = "public, max-age=31536000, immutable"
"""What a name with a revision stands for does not change; `event.v1` and the index may grow."""


def read_schemas() -> Mapping[str, bytes]:
    """Return the schemas that come with the package, by the names of their files."""
    folder = files("reactive_desched.api") / "schemas"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith(_SUFFIX)}


def add_routes(router: Router, schemas: Mapping[str, bytes]) -> None:
    """Serve the index, and each schema under the name of its file."""

    async def index(_: BaseRequest) -> Response:
        return _schema_response(_INDEX_FILE, schemas)

    async def schema(request: BaseRequest) -> Response:
        return _schema_response(request.path.removeprefix(INDEX), schemas)

    router.add_get(INDEX.rstrip("/"), index)
    router.add_get(INDEX, index)
    router.add_folder(INDEX, schema)


def _schema_response(name: str, schemas: Mapping[str, bytes]) -> Response:
    if (text := schemas.get(name)) is None:
        return Response(status=404, text=f"there is no such schema; {INDEX} lists them\n")
    kind = "application/json" if name == _INDEX_FILE else "application/schema+json"
    caching = {"Cache-Control": _CACHE_FOREVER} if _WITH_REVISION.fullmatch(name) else {}
    return Response(body=text, headers={"Content-Type": kind, **caching})
