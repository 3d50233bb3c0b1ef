"""The live page at `/`, its style and script, and a page on reasons: files of the package."""

from importlib.resources import files
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse

from reactive_desched.web.router import Handler, Router

_FOLDER: Final = "ui"
_TYPES: Final = {
    "index.html": "text/html",
    "style.css": "text/css",
    "app.js": "text/javascript",
    "reasons.html": "text/html",
}
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}


def add_routes(router: Router, index: Handler) -> None:
    """Serve the page to browsers that GET `/`, and its parts; other clients get the index."""
    folder = files("reactive_desched.web") / _FOLDER
    handlers = {
        name: _handler((folder / name).read_bytes(), media_type)
        for name, media_type in _TYPES.items()
    }
    page = handlers.pop("index.html")

    async def page_or_index(request: BaseRequest) -> StreamResponse:
        accepts_html = "text/html" in request.headers.get("Accept", "")
        return await (page if accepts_html else index)(request)

    router.add_get("/", page_or_index)
    for name, handler in handlers.items():
        router.add_get(f"/{_FOLDER}/{name}", handler)
        router.open_to_all(f"/{_FOLDER}/{name}")


def _handler(body: bytes, media_type: str) -> Handler:
    async def handle(_: BaseRequest) -> Response:
        return Response(body=body, content_type=media_type, charset="utf-8", headers=_HEADERS)

    return handle
