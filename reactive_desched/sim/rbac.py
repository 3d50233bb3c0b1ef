"""Authorizes requests by the stored Roles and bindings, as the RBAC authorizer does."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.model.labels import parse_label_selector
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.resources import RESOURCES, Resource
from reactive_desched.sim.status import StatusError, forbidden, not_found
from reactive_desched.sim.store import Store

__all__ = [
    "ADMIN",
    "Access",
    "Request",
    "User",
    "access",
    "check_grant",
    "forbidden_request",
    "rules_for",
    "service_account",
]

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_ACCOUNT: Final = "system:serviceaccount:"
_GROUP_OF_ACCOUNTS: Final = "system:serviceaccounts"
_GROUP: Final = RESOURCES["roles"].group
_EVERYTHING: Final = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
"""The rules that cover every request."""


class User(Struct, frozen=True):
    """The user that sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def may_do_everything(self) -> bool:
        """Say whether no rule is asked: members of system:masters."""
        return MASTERS in self.groups


ADMIN: Final = User("sim:admin", (MASTERS, AUTHENTICATED))
"""Who sends a request without credentials."""


class Request(Struct, frozen=True, kw_only=True):
    """A request as rules see it; `path` is alone, for URLs that name no resource."""

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
        return list(_EVERYTHING)
    return [rule for _, _, rules in _grants(store, user, namespace) for rule in rules]


def check_grant(store: Store, user: User, kind: Resource, obj: Obj, current: Obj | None) -> None:
    """Refuse a role or binding that gives rights which its writer lacks, as the API server does.

    A role is written by a user who has its rules or the verb `escalate` on it, a binding by one
    who has the rules of its role or the verb `bind` on the role; an aggregated ClusterRole needs
    every right. Raises StatusError: 403 for a missing right, 404 for a role that does not exist.
    """
    if kind.group != _GROUP or user.may_do_everything:
        return
    namespace = namespace_of(obj) if kind.namespaced else ""
    role = obj.get("roleRef")
    if kind.plural.endswith("bindings"):
        if not isinstance(role, dict):
            return  # validation refuses it
        named = RESOURCES["roles" if role.get("kind") == "Role" else "clusterroles"]
        verb, name = "bind", role.get("name", "")
        given: Sequence[Obj] = _rules_to_bind(store, named, namespace, obj)
    else:
        named, verb, name = kind, "escalate", obj["metadata"].get("name", "")
        given = _new_rules(obj, current)
    asked = Request(verb=verb, group=_GROUP, resource=named.plural, namespace=namespace, name=name)
    if access(store, user, asked).allowed:
        return
    held = rules_for(store, user, namespace)
    missing = [
        each
        for rule in given
        for each in _requests_of(rule)
        if not any(_covers(own, each) for own in held)
    ]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        text = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not'
            " currently held:\n" + "\n".join(_compact(missing))
        )
        raise forbidden(kind, obj["metadata"].get("name", ""), text)


def _rules_to_bind(store: Store, role: Resource, namespace: str, binding: Obj) -> Sequence[Obj]:
    name = binding["roleRef"].get("name", "")
    if store.get(role.plural, namespace if role.namespaced else "", name) is None:
        raise not_found(role, name)
    return _rules_of(store, binding)


def _new_rules(role: Obj, current: Obj | None) -> Sequence[Obj]:
    """Return the rules that a role gives and did not give as it was."""
    before = current or {}
    aggregation = role.get("aggregationRule")
    if aggregation and aggregation != before.get("aggregationRule"):
        return _EVERYTHING
    rules = role.get("rules") or []
    return [] if rules == before.get("rules") else rules


def _requests_of(rule: Obj) -> Iterator[Request]:
    """Yield each request that a rule allows, a wildcard as itself."""
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield Request(verb=verb, path=url)
        for group in rule.get("apiGroups") or ():
            for listed in rule.get("resources") or ():
                resource, _, subresource = listed.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield Request(
                        verb=verb,
                        group=group,
                        resource=resource,
                        subresource=subresource,
                        name=name,
                    )


def _compact(missing: Sequence[Request]) -> list[str]:
    """Write requests as rules in the API server's form, one for all verbs of a resource."""
    verbs: defaultdict[str, list[str]] = defaultdict(list)
    for each in missing:
        resource = "/".join(filter(None, (each.resource, each.subresource)))
        names = f', ResourceNames:["{each.name}"]' if each.name else ""
        scope = (
            f'NonResourceURLs:["{each.path}"]'
            if each.path
            else f'APIGroups:["{each.group}"], Resources:["{resource}"]{names}'
        )
        verbs[scope].append(f'"{each.verb}"')
    return sorted(
        f"{{{scope}, Verbs:[{' '.join(dict.fromkeys(given))}]}}" for scope, given in verbs.items()
    )


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
