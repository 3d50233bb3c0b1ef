"""Chooses the form of an answer that a client accepts."""

from collections.abc import Iterator

from msgspec import Struct

from reactive_desched.sim.status import StatusError

__all__ = ["Accepted", "accepted", "wants_aggregated_discovery"]

_JSON_TYPES = ("application/json", "application/*", "*/*")
_VERSIONS = ("v1", "v1beta1")
_FORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Accepted(Struct, frozen=True):
    """The chosen form: "" is the object itself."""

    form: str = ""
    version: str = "v1"


def accepted(header: str) -> Accepted:
    """Choose the first clause that can be served; raise 406 when there is none."""
    if not header.strip():
        return Accepted()
    for media, parameters in _clauses(header):
        if media not in _JSON_TYPES:
            continue
        form = parameters.get("as", "")
        if not form:
            return Accepted()
        version = parameters.get("v", "v1")
        if form in _FORMS and parameters.get("g") == "meta.k8s.io" and version in _VERSIONS:
            return Accepted(form, version)
    raise StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json"
        " (also as Table or PartialObjectMetadata)",
    )


def wants_aggregated_discovery(header: str) -> str:
    """Return the version of the aggregated form the client prefers, or "" for the plain one."""
    for media, parameters in _clauses(header):
        if media not in _JSON_TYPES:
            continue
        if "as" not in parameters:
            return ""
        if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") == "v2":
            return "v2"
    return ""


def _clauses(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    found = []
    for clause in header.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        found.append((_weight(parameters.pop("q", "1")), media, parameters))
    for _, media, parameters in sorted(found, key=lambda clause: -clause[0]):
        yield media, parameters


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
