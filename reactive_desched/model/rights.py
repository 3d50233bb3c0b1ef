"""Rights that the API server denies: the rule that is missing, and a command that adds it."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct


class AccessReview(Struct, frozen=True, gc=False):
    """The user whose token was sent, and whether that may do this; no `user`: no valid token."""

    user: str = ""
    allowed: bool = False
    reason: str = ""


LIST_WATCH: Final = ("list", "watch")

GRANTED_ROLE: Final = "reactive-desched-missing"
"""The name of a role that a command adds beside the one that the controller has."""

_DENIAL: Final = (
    r'User "(?P<user>[^"]*)" cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""How the API server words a denial; an admission plugin that forbids a request has other words."""

_FORBIDDEN: Final = r"^(?:GET|list|watch) /\S+: 403\b"
_NOT_SERVED: Final = (
    r"^(?:GET|list|watch) /apis?/(?P<api>(?:[^/\s]+/)?v[^/\s]+)/\S+: (?:404|405|501)\b"
)
_CORE_API: Final = "v1"
_BUILT_IN: Final = re.compile(r"(?:apps|batch|policy|[a-z.]+\.k8s\.io)/")
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_USED_TOGETHER: Final = {
    "leases": ("get", "create", "update"),
    "events": ("create", "patch"),
}
"""Verbs of which the controller uses all: who lacks one lacks the others, as a rule."""

_BY_NAMESPACE: Final = frozenset({"leases"})
"""What the controller needs in one namespace alone: a Role grants it."""


class Right(Struct, frozen=True, order=True):
    """A right that an account lacks; without a `namespace` it lacks it in the whole cluster."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    user: str = ""
    namespace: str = ""

    @property
    def rule(self) -> str:
        """The rule for a role, in YAML on one line."""
        group = self.group or '""'
        verbs = ", ".join(self.verbs)
        return f"{{apiGroups: [{group}], resources: [{self.resource}], verbs: [{verbs}]}}"

    @property
    def kubectl_resource(self) -> str:
        """The resource as kubectl takes it: pods/eviction, poddisruptionbudgets.policy."""
        name, slash, subresource = self.resource.partition("/")
        return f"{name}.{self.group}{slash}{subresource}" if self.group else self.resource


def denied_right(message: str) -> Right | None:
    """Return the right that the API server says is missing; None where it says something else."""
    if (found := re.search(_DENIAL, message)) is None:
        return None
    resource = found["resource"]
    namespace = (found["namespace"] or "") if resource in _BY_NAMESPACE else ""
    verbs = _USED_TOGETHER.get(resource, (found["verb"],))
    return Right(found["group"], resource, verbs, found["user"], namespace)


def right_to_read(
    group: str, resource: str, refusal: str, verbs: tuple[str, ...] = LIST_WATCH
) -> Right | None:
    """Return the right to read a kind where a list or watch of it was forbidden.

    `refusal` is how the request ended; a proxy may forbid it in words of its own.
    """
    if not re.match(_FORBIDDEN, refusal):
        return None
    named = denied_right(refusal)
    return Right(group, resource, verbs, "" if named is None else named.user)


def remedy_for(refusal: str, right: Right | None) -> str:
    """Return what ends a refusal to list or watch a kind; empty where that is not known."""
    if (found := re.match(_NOT_SERVED, refusal)) is not None:
        return _how_to_serve(found["api"])
    return "" if right is None else how_to_grant((right,))


def _how_to_serve(api: str) -> str:
    """Return what makes a server serve the kinds of a group and version."""
    if api == _CORE_API:
        return (
            "every API server serves the kind: check that the server's address in the kubeconfig,"
            " its path included, is that of one"
        )
    if _BUILT_IN.match(api):
        return (
            f"the API server does not serve {api}: `kubectl api-versions` lists what it serves; its"
            f" flag --runtime-config={api}=true switches it on, and Kubernetes before 1.21 lacks"
            " some"
        )
    return "the API server does not serve the kind: install its CustomResourceDefinition"


def how_to_grant(rights: Iterable[Right]) -> str:
    """Return the rules that are missing, and a command that adds them; empty for no right."""
    missing = sorted(set(rights))
    if not missing:
        return ""
    rules = ", ".join(each.rule for each in missing)
    verbs = ",".join(dict.fromkeys(verb for each in missing for verb in each.verbs))
    resources = ",".join(dict.fromkeys(each.kubectl_resource for each in missing))
    user, namespace = missing[0].user, missing[0].namespace
    kind, where = ("role", f" --namespace={namespace}") if namespace else ("clusterrole", "")
    role = f"{kind} {GRANTED_ROLE}{where} --verb={verbs} --resource={resources}"
    binding = f"{kind}binding {GRANTED_ROLE}{where} --{kind}={GRANTED_ROLE} {_subject(user)}"
    return f"grant {rules}, as by `kubectl create {role} && kubectl create {binding}`"


def with_grant(message: str) -> str:
    """Return the API server's message, and how to grant the right where it denies one."""
    right = denied_right(message)
    return message if right is None else f"{message}; {how_to_grant((right,))}"


def _subject(user: str) -> str:
    if user.startswith(_SERVICE_ACCOUNT):
        return f"--serviceaccount={user.removeprefix(_SERVICE_ACCOUNT)}"
    return f"--user={user}" if user else "--serviceaccount=NAMESPACE:NAME"
