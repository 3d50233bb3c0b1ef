"""The same requests to two API servers, whose answers and whose objects are compared."""

import difflib
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Answer", "Plane", "Planes", "plain"]

Object = dict[str, Any]  # a Kubernetes object as JSON
JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
APPLY, YAML = "application/apply-patch+yaml", "application/yaml"
_STABLE_S: Final = 1.0
_WITHIN_S: Final = 30.0
_MADE_UP: Final = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+]00:00)"), "TIME"),
    (re.compile(r"\b[bcdfghjklmnpqrstvwxz2456789]{8,10}\b"), "HASH"),
    (re.compile(r"(0/\d+ nodes are available: |no nodes available to schedule).*"), "NO NODE"),
    (re.compile(r"(?<=current: )\d+"), "VERSION"),
    (re.compile(r"(?<=record )\(\d+\)"), "(VERSION)"),
    (re.compile(r"\b10(\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"(?<=[-.])[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "XXXXX"),
)
"""What a server makes up, and the word that stands for it."""
_VERSIONS: Final = ("resourceVersion", "resourceVersionMatch")


@dataclass(frozen=True)
class Answer:
    """An answer of an API server."""

    code: int
    body: Any
    retry_after: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plane:
    """An API server, and a namespace of this program's own in it."""

    name: str
    url: str
    namespace: str
    token: str = ""
    trust: ssl.SSLContext | None = None

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """Send a request; `path` stands below the server's address."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=_written(body),
            headers={"Content-Type": content_type, "Accept": accept},
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.trust) as answer:
                return _answer(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read(), error.headers)

    def items(self, path: str) -> list[Object]:
        """Return the objects of a list; none where the server refuses it."""
        answer = self.send("GET", path)
        found: list[Object] = answer.body.get("items", []) if answer.code == 200 else []
        return found


def _written(body: object) -> bytes | None:
    """Return a body as it is sent: a text as it stands."""
    if body is None:
        return None
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _answer(code: int, content: bytes, headers: Any) -> Answer:
    try:
        body = json.loads(content) if content.strip() else None
    except ValueError:
        body = content.decode(errors="replace")
        if body.startswith("{"):  # the documents of a watch
            body = [json.loads(line) for line in body.splitlines()]
    warnings = tuple(headers.get_all("Warning") or ())
    return Answer(code, body, headers.get("Retry-After"), warnings)


def _differ_in_status(real: Object, sim: Object) -> bool:
    """Return whether two answers show an object, and differ in nothing but its status."""
    if real == sim or not all(isinstance(each["body"], dict) for each in (real, sim)):
        return False
    rests = [{**each, "body": {**each["body"], "status": None}} for each in (real, sim)]
    return rests[0] == rests[1] and real["body"].get("kind") != "Status"


def plain(value: Any) -> Any:
    """Return a value without what each server makes up: uids, times, versions, random names."""
    match value:
        case dict():
            return {
                plain(key): "VERSION" if key in _VERSIONS and each else plain(each)
                for key, each in value.items()
                if key != "managedFields"
            }
        case list() | tuple():
            return [plain(each) for each in value]
        case str():
            for pattern, word in _MADE_UP:
                value = pattern.sub(word, value)
    return value


@dataclass
class Planes:
    """The real control plane and the simulator, side by side.

    What differs is noted in `differences`, and the program goes on.
    """

    real: Plane
    sim: Plane
    differences: list[str] = field(default_factory=list)

    @property
    def both(self) -> tuple[Plane, Plane]:
        return self.real, self.sim

    @property
    def namespace(self) -> str:
        return self.real.namespace

    def send(
        self,
        method: str,
        path: str | Callable[[Plane], str],
        body: object = None,
        content_type: str = JSON,
        *,
        only: Callable[[Any], Any] = plain,
    ) -> tuple[Answer, Answer]:
        """Send a request to both, and compare the answers, or what `only` returns of the bodies.

        An answer has the status that a controller had written by then. Where nothing else differs,
        the object of a request for `path` has to become the same of both.
        """
        answers = []
        for plane in self.both:
            place = path if isinstance(path, str) else path(plane)
            sent = body(plane) if callable(body) else body
            answers.append(plane.send(method, place, sent, content_type))
        shown = [
            {
                "code": each.code,
                "body": plain(only(each.body)),
                "Retry-After": each.retry_after,
                "warnings": each.warnings,
            }
            for each in answers
        ]
        where = path if isinstance(path, str) else "(a path of each)"
        what = f"{method} {where} {json.dumps(body) if not callable(body) else ''}"
        if isinstance(path, str) and method != "GET" and _differ_in_status(*shown):
            self.agree(what, lambda plane: plane.send("GET", path).body)
        else:
            self.compare(what, *shown)
        return answers[0], answers[1]

    def agree(self, what: str, look: Callable[[Plane], Any]) -> None:
        """Wait until both show the same, for a second; note the difference if they never do."""
        deadline, since, last = time.monotonic() + _WITHIN_S, 0.0, None
        while time.monotonic() < deadline:
            seen = [plain(look(plane)) for plane in self.both]
            now = time.monotonic()
            if seen[0] != seen[1] or seen != last:
                since, last = now, seen
            elif now - since >= _STABLE_S:
                return
            time.sleep(0.15)
        self.compare(what, *[plain(look(plane)) for plane in self.both])

    def each(self, act: Callable[[Plane], object]) -> None:
        """Do something on both."""
        for plane in self.both:
            act(plane)

    def compare(self, what: str, real: object, sim: object) -> None:
        """Note what differs of two values, which are plain."""
        if real == sim:
            return
        one, other = (
            json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (real, sim)
        )
        lines = difflib.unified_diff(one, other, "real", "simulated", n=3, lineterm="")
        self.differences.append(f"{what[:400]}\n" + "\n".join(lines))
