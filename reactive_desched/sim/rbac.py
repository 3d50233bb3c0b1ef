"""Who may do what: the Roles and bindings that are stored, judged as the RBAC authorizer does."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.labels import parse_label_selector
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Store

__all__ = [
    "ADMIN",
    "Access",
    "Request",
    "User",
    "access",
    "forbidden_request",
    "rules_for",
    "service_account",
]

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_ACCOUNT: Final = "system:serviceaccount:"
_GROUP_OF_ACCOUNTS: Final = "system:serviceaccounts"


class User(Struct, frozen=True):
    """Who sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def may_do_everything(self) -> bool:
        """Whether no rule is asked: members of system:masters."""
        return MASTERS in self.groups


ADMIN: Final = User("sim:admin", (MASTERS, AUTHENTICATED))
"""Who sends a request without credentials."""


class Request(Struct, frozen=True, kw_only=True):
    """What a rule is compared with; `path` stands alone, for URLs that name no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Access(Struct, frozen=True):
    """The answer, and which binding it comes from."""

    allowed: bool
    reason: str = ""


def service_account(username: str, groups: tuple[str, ...] = (), uid: str = "") -> User:
    """Return a user with the groups that the API server adds, those of a ServiceAccount too."""
    if not groups and username.startswith(_ACCOUNT):
        namespace = username.removeprefix(_ACCOUNT).partition(":")[0]
        groups = (_GROUP_OF_ACCOUNTS, f"{_GROUP_OF_ACCOUNTS}:{namespace}")
    return User(username, tuple(dict.fromkeys((*groups, AUTHENTICATED))), uid)


def access(store: Store, user: User, request: Request) -> Access:
    """Say whether any binding gives the user a rule that covers the request."""
    if user.may_do_everything:
        return Access(allowed=True, reason=f"the group {MASTERS} may do everything")
    for binding, subject, rules in _grants(store, user, request.namespace):
        if any(_covers(rule, request) for rule in rules):
            return Access(allowed=True, reason=_reason(binding, subject))
    return Access(allowed=False)


def rules_for(store: Store, user: User, namespace: str) -> list[Obj]:
    """Return every rule that the user has in a namespace, those of the whole cluster first."""
    if user.may_do_everything:
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    return [rule for _, _, rules in _grants(store, user, namespace) for rule in rules]


def forbidden_request(user: User, request: Request) -> StatusError:
    """Return the refusal of a request, in the API server's words."""
    who = f'User "{user.name}" cannot {request.verb}'
    if request.path:
        return StatusError(403, "Forbidden", f'forbidden: {who} path "{request.path}"')
    parts = (request.resource, request.subresource)
    where = f'in the namespace "{request.namespace}"' if request.namespace else ""
    text = (
        f'{who} resource "{"/".join(filter(None, parts))}" in API group "{request.group}"'
        f" {where or 'at the cluster scope'}"
    )
    qualified = ".".join(filter(None, (request.resource, request.group)))
    named = f'{qualified} "{request.name}"' if request.name else qualified
    details = {"kind": request.resource}
    details |= {"group": request.group} if request.group else {}
    details |= {"name": request.name} if request.name else {}
    return StatusError(403, "Forbidden", f"{named} is forbidden: {text}", details=details)


def _grants(store: Store, user: User, namespace: str) -> Iterator[tuple[Obj, Obj, list[Obj]]]:
    """Yield each binding that names the user, the subject that does, and the rules it gives."""
    bindings = store.list("clusterrolebindings")
    if namespace:
        bindings = [*bindings, *store.list("rolebindings", namespace)]
    for binding in bindings:
        for subject in binding.get("subjects") or ():
            if _is_named(user, subject, namespace_of(binding)):
                yield binding, subject, _rules_of(store, binding)
                break


def _is_named(user: User, subject: Obj, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(user.name == name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"{_ACCOUNT}{subject.get('namespace') or namespace}:{name}"
    return False


def _rules_of(store: Store, binding: Obj) -> list[Obj]:
    """Return the rules of the role that a binding refers to; a missing role has none."""
    role = binding.get("roleRef") or {}
    if role.get("kind") == "Role":
        found = store.get("roles", namespace_of(binding), role.get("name", ""))
        return list((found or {}).get("rules") or ())
    found = store.get("clusterroles", "", role.get("name", ""))
    if found is None or not found.get("aggregationRule"):
        return list((found or {}).get("rules") or ())
    selectors = [
        parse_label_selector(selector)
        for selector in found["aggregationRule"].get("clusterRoleSelectors") or ()
    ]
    return [
        rule
        for each in store.list("clusterroles")
        if any(selector.matches(labels_of(each)) for selector in selectors)
        for rule in each.get("rules") or ()
    ]


def _covers(rule: Obj, request: Request) -> bool:
    if not _has(rule, "verbs", request.verb):
        return False
    if request.path:
        urls = rule.get("nonResourceURLs") or ()
        return any(
            url == request.path or (url.endswith("*") and request.path.startswith(url[:-1]))
            for url in urls
        )
    names = rule.get("resourceNames") or ()
    return (
        _has(rule, "apiGroups", request.group)
        and _has_resource(rule, request)
        and (not names or request.name in names)
    )


def _has(rule: Obj, field: str, value: str) -> bool:
    listed = rule.get(field) or ()
    return "*" in listed or value in listed


def _has_resource(rule: Obj, request: Request) -> bool:
    if not request.subresource:
        return _has(rule, "resources", request.resource)
    whole = f"{request.resource}/{request.subresource}"
    listed = rule.get("resources") or ()
    return _has(rule, "resources", whole) or f"*/{request.subresource}" in listed


def _reason(binding: Obj, subject: Obj) -> str:
    role, place = binding["roleRef"], namespace_of(binding)
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or place}"
    where = f"{name_of(binding)}/{place}" if place else name_of(binding)
    return (
        f'RBAC: allowed by {binding["kind"]} "{where}" of {role.get("kind")} "{role.get("name")}"'
        f' to {subject.get("kind")} "{name}"'
    )
