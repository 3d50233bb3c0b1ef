"""Nobody gives rights that they lack: roles and bindings on the simulated cluster."""

from typing import Any

import pytest

from tests.sim.http.test_access import READ, account, as_user, grant
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

RBAC = "/apis/rbac.authorization.k8s.io/v1"
JANE = {"kind": "User", "name": "jane"}
WRITE_ROLES = {
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
    "verbs": ["create", "update", "patch", "get"],
}
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"


def rule(*resources: str, verbs: tuple[str, ...] = ("get",), **more: Any) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": list(resources), "verbs": list(verbs), **more}


def extra_right(verb: str, resource: str) -> dict[str, Any]:
    return {"apiGroups": WRITE_ROLES["apiGroups"], "resources": [resource], "verbs": [verb]}


async def written(api: Any, *rules: dict[str, Any], **more: Any) -> tuple[int, Any]:
    """Let jane create a role of these rules in the namespace default."""
    body = {"metadata": {"name": "new"}, "rules": list(rules), **more}
    status, answer = await api.ask("POST", ROLES, body, **as_user("jane"))
    return status, answer


async def bound(api: Any, kind: str, name: str) -> tuple[int, Any]:
    """Let jane bind a role in the namespace default."""
    body = {
        "metadata": {"name": "new"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [account()],
    }
    status, answer = await api.ask("POST", BINDINGS, body, **as_user("jane"))
    return status, answer


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(rule("pods"), 201, id="a part of her own rule"),
        pytest.param(rule("pods", resourceNames=["web"]), 201, id="one pod of all"),
        pytest.param(rule("secrets"), 403, id="another resource"),
        pytest.param(rule("pods/eviction"), 403, id="a subresource"),
        pytest.param(rule("pods", verbs=("get", "delete")), 403, id="another verb"),
        pytest.param(rule("*"), 403, id="every resource"),
        pytest.param(rule("pods", verbs=("*",)), 403, id="every verb"),
        pytest.param({**rule("pods"), "apiGroups": ["*"]}, 403, id="every group"),
    ],
)
async def test_a_role_gives_only_what_its_writer_has(
    api: Any, asked: dict[str, Any], expected: int
) -> None:
    await grant(api, READ, WRITE_ROLES, to=JANE)

    status, _ = await written(api, asked)

    assert status == expected
    assert (api.store.get("roles", "default", "new") is not None) == (expected == 201)


async def test_the_refusal_lists_the_missing_rights_as_the_api_server_does(api: Any) -> None:
    await grant(api, READ, WRITE_ROLES, to=JANE)

    _, answer = await written(api, rule("secrets", "pods", verbs=("get", "delete")))

    assert answer["message"] == verbatim(
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "jane"'
        ' (groups=["system:authenticated"]) is attempting to grant RBAC permissions not'
        ' currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
        '\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    )
    assert (answer["reason"], answer["code"]) == ("Forbidden", 403)


async def test_rights_of_one_namespace_are_not_given_in_another(api: Any) -> None:
    await grant(api, WRITE_ROLES, to=JANE)
    await grant(api, READ, to=JANE, within="kube-system")

    assert (await written(api, rule("pods")))[0] == 403


@pytest.mark.parametrize(
    ("verb", "resource", "makes", "binds"),
    [("escalate", "roles", 201, 403), ("bind", "clusterroles", 403, 201)],
)
async def test_escalate_and_bind_allow_what_they_name(
    api: Any, verb: str, resource: str, makes: int, binds: int
) -> None:
    await grant(api, WRITE_ROLES, extra_right(verb, resource), to=JANE)

    assert (await written(api, rule("secrets")))[0] == makes
    assert (await bound(api, "ClusterRole", "cluster-admin"))[0] == binds


async def test_a_binding_gives_only_what_its_writer_has(api: Any) -> None:
    await grant(api, READ, WRITE_ROLES, to=JANE)
    for name, resource in (("viewer", "pods"), ("thief", "secrets")):
        body = {"metadata": {"name": name}, "rules": [rule(resource)]}
        assert (await api.ask("POST", f"{RBAC}/clusterroles", body))[0] == 201

    assert (await bound(api, "ClusterRole", "thief"))[0] == 403
    assert (await bound(api, "Role", "missing"))[0] == 404
    assert (await bound(api, "ClusterRole", "viewer"))[0] == 201


async def test_an_update_that_adds_rights_is_refused_and_one_of_labels_is_not(api: Any) -> None:
    await grant(api, READ, WRITE_ROLES, to=JANE)
    body = {"metadata": {"name": "old"}, "rules": [rule("secrets")]}
    assert (await api.ask("POST", ROLES, body))[0] == 201

    async def patched(change: dict[str, Any]) -> int:
        headers = [*as_user("jane")["headers"], ("Content-Type", "application/merge-patch+json")]
        status, _ = await api.ask("PATCH", f"{ROLES}/old", change, headers=headers)
        return int(status)

    assert await patched({"metadata": {"labels": {"a": "b"}}}) == 200
    assert await patched({"rules": [rule("secrets"), rule("configmaps")]}) == 403
    assert await patched({"rules": [rule("pods")]}) == 200


async def test_an_aggregated_role_needs_every_right(api: Any) -> None:
    await grant(api, READ, WRITE_ROLES, to=JANE)
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    body = {"metadata": {"name": "new"}, "rules": [], "aggregationRule": selector}

    assert (await api.ask("POST", f"{RBAC}/clusterroles", body, **as_user("jane")))[0] == 403
    assert (await api.ask("POST", f"{RBAC}/clusterroles", body))[0] == 201
