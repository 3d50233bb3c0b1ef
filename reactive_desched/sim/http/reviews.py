"""Answers to questions about access: here everybody may do everything."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from reactive_desched.sim.objects import Obj

__all__ = ["is_review", "review"]

_USER = {"username": "sim:admin", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def _allowed() -> Obj:
    return {"allowed": True, "reason": "the simulated cluster allows everything"}


_ANSWERS: Mapping[str, Callable[[], Obj]] = MappingProxyType(
    {
        "selfsubjectaccessreviews": _allowed,
        "subjectaccessreviews": _allowed,
        "selfsubjectrulesreviews": lambda: dict(_EVERYTHING),
        "selfsubjectreviews": lambda: {"userInfo": _USER},
        "tokenreviews": lambda: {"authenticated": True, "user": _USER},
    }
)
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "subjectaccessreviews": "SubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        "selfsubjectreviews": "SelfSubjectReview",
        "tokenreviews": "TokenReview",
    }
)
_GROUPS = ("authorization.k8s.io", "authentication.k8s.io")


def is_review(path: str) -> bool:
    """Tell whether reviews are answered at this path."""
    match path.strip("/").split("/"):
        case ["apis", group, "v1", plural]:
            return group in _GROUPS and plural in _ANSWERS
    return False


def review(path: str, question: Obj) -> Obj:
    """Answer a review posted to `path`, which must be one of a review."""
    _, group, version, plural = path.strip("/").split("/")
    asked = {**question, "apiVersion": f"{group}/{version}", "kind": _KINDS[plural]}
    return {**asked, "metadata": {}, "status": _ANSWERS[plural]()}
