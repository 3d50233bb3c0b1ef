"""Users, tokens and the stored roles: who may do what on the simulated cluster."""

from typing import Any

import pytest

from tests.support.golden import Golden, verbatim

pytestmark = pytest.mark.anyio

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:default:default"
EVICT = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
READ = {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}


def as_user(name: str, *groups: str) -> dict[str, Any]:
    return {"headers": [("Impersonate-User", name), *(("Impersonate-Group", g) for g in groups)]}


async def grant(
    api: Any, *rules: dict[str, Any], to: dict[str, str], within: str = "", name: str = "r"
) -> None:
    """Create a role and its binding, in a namespace or for the whole cluster."""
    kind = "Role" if within else "ClusterRole"
    root = f"{RBAC}/namespaces/{within}/" if within else f"{RBAC}/cluster"
    ref = {"kind": kind, "name": name}
    for path, more in (
        ("roles", {"rules": list(rules)}),
        ("rolebindings", {"roleRef": ref, "subjects": [to]}),
    ):
        status, body = await api.ask("POST", root + path, {"metadata": {"name": name}, **more})
        assert status == 201, body


def account(namespace: str = "default") -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": "default", "namespace": namespace}


async def test_a_user_without_a_role_is_refused_in_the_servers_words(api: Any) -> None:
    api.pod("a")
    status, body = await api.ask("GET", "/api/v1/pods", **as_user("jane"))
    assert (status, body["reason"], body["details"]) == (403, "Forbidden", {"kind": "pods"})
    assert body["message"] == verbatim(
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the'
        " cluster scope"
    )

    path = "/api/v1/namespaces/default/pods/a/eviction"
    eviction = {"metadata": {"name": "a"}}
    status, body = await api.ask("POST", path, eviction, **as_user(ACCOUNT))
    assert status == 403
    assert body["message"] == verbatim(
        f'pods "a" is forbidden: User "{ACCOUNT}" cannot create resource "pods/eviction" in API'
        ' group "" in the namespace "default"'
    )
    assert api.store.get("pods", "default", "a") is not None


async def test_a_bound_account_may_do_what_its_role_says_and_no_more(api: Any) -> None:
    api.pod("a")
    await grant(api, READ, EVICT, to=account())
    pod = "/api/v1/namespaces/default/pods/a"
    for method, path, body, expected in (
        ("GET", "/api/v1/pods", None, 200),
        ("GET", pod, None, 200),
        ("GET", "/api/v1/services", None, 403),
        ("DELETE", pod, None, 403),
        ("PATCH", pod, {}, 403),
        ("POST", f"{pod}/binding", {}, 403),
        ("POST", f"{pod}/eviction", {"metadata": {"name": "a"}}, 201),
    ):
        status, _ = await api.ask(method, path, body, **as_user(ACCOUNT))
        assert (method, path, status) == (method, path, expected)


async def test_a_role_of_a_namespace_ends_with_the_namespace(api: Any) -> None:
    await grant(api, READ, to=account(), within="kube-system")
    asked = [f"/api/v1/namespaces/{name}/pods" for name in ("kube-system", "default")]
    statuses = [(await api.ask("GET", path, **as_user(ACCOUNT)))[0] for path in asked]
    assert statuses == [200, 403]


async def test_a_rule_with_names_covers_these_alone(api: Any) -> None:
    rule = {**READ, "resources": ["configmaps"], "resourceNames": ["ours"]}
    await grant(api, rule, to={"kind": "Group", "name": "readers"})
    maps = "/api/v1/namespaces/default/configmaps"
    user = as_user("jane", "readers")
    statuses = [
        (await api.ask("GET", path, **user))[0] for path in (f"{maps}/ours", f"{maps}/theirs", maps)
    ]
    assert statuses == [404, 403, 403]


async def test_every_user_discovers_kinds_and_asks_about_their_own_rights(api: Any) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    for method, path, body, expected in (
        ("GET", "/apis/apps/v1", None, 200),
        ("GET", "/openapi/v3", None, 200),
        ("POST", f"{REVIEWS}/selfsubjectaccessreviews", review, 201),
        ("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "x"}}, 403),
        ("GET", "/metrics", None, 403),
    ):
        status, _ = await api.ask(method, path, body, **as_user("jane"))
        assert (path, status) == (path, expected)


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"verb": "create", "resource": "pods", "subresource": "eviction"}, True),
        ({"verb": "create", "resource": "pods"}, False),
        ({"verb": "list", "resource": "nodes"}, True),
        ({"verb": "list", "resource": "nodes", "group": "metrics.k8s.io"}, False),
    ],
)
async def test_a_review_says_what_a_request_would_meet(
    api: Any, attributes: dict[str, str], *, allowed: bool
) -> None:
    await grant(api, READ, EVICT, to=account())
    about = {"resourceAttributes": {**attributes, "namespace": "default"}}
    own = f"{REVIEWS}/selfsubjectaccessreviews"
    _, mine = await api.ask("POST", own, {"spec": about}, **as_user(ACCOUNT))
    others = f"{REVIEWS}/subjectaccessreviews"
    _, theirs = await api.ask("POST", others, {"spec": {**about, "user": ACCOUNT}})
    local = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"
    _, here = await api.ask("POST", local, {"spec": {**about, "user": ACCOUNT}})

    assert mine["status"] == theirs["status"] == here["status"]
    assert mine["status"]["allowed"] is allowed
    if allowed:
        assert mine["status"]["reason"] == verbatim(
            'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to ServiceAccount'
            ' "default/default"'
        )


async def test_the_list_of_rights_is_that_of_the_namespace(api: Any) -> None:
    await grant(api, EVICT, to=account(), within="kube-system")
    rules = {}
    for namespace in ("kube-system", "default"):
        question = {"spec": {"namespace": namespace}}
        path = f"{REVIEWS}/selfsubjectrulesreviews"
        _, body = await api.ask("POST", path, question, **as_user(ACCOUNT))
        rules[namespace] = [r["resources"] for r in body["status"]["resourceRules"]]
    assert ["pods/eviction"] in rules["kube-system"]
    assert ["pods/eviction"] not in rules["default"]


async def test_a_token_stands_for_its_account_until_it_ends(api: Any) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    status, body = await api.ask("POST", path, {"spec": {"expirationSeconds": 600}})
    assert (status, body["kind"]) == (201, "TokenRequest")
    bearer = {"headers": {"Authorization": f"Bearer {body['status']['token']}"}}
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    _, me = await api.ask("POST", who, {}, **bearer)
    assert me["status"]["userInfo"]["username"] == ACCOUNT
    assert "system:serviceaccounts:default" in me["status"]["userInfo"]["groups"]
    assert (await api.ask("GET", "/api/v1/nodes", **bearer))[0] == 403
    assert (await api.ask("GET", "/version", **as_user("jane") | bearer))[0] == 200

    tampered = {"headers": {"Authorization": bearer["headers"]["Authorization"][:-2] + "xx"}}
    assert (await api.ask("GET", "/version", **tampered))[0] == 401
    api.store.clock.advance(600)
    assert (await api.ask("GET", "/version", **bearer))[0] == 401


async def test_a_token_dies_with_its_account_and_may_not_pretend_to_be_another(api: Any) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    _, body = await api.ask("POST", f"{path}/token", {})
    headers = {"Authorization": f"Bearer {body['status']['token']}"}
    status, body = await api.ask(
        "GET", "/api/v1/pods", headers={**headers, "Impersonate-User": "jane"}
    )
    assert (status, 'cannot impersonate resource "users"' in body["message"]) == (403, True)
    await api.ask("DELETE", path)
    assert (await api.ask("GET", "/version", headers=headers))[0] == 401


async def test_a_token_of_another_cluster_is_taken_for_the_administrators(api: Any) -> None:
    headers = {"Authorization": "Bearer of-somebody-else"}
    assert (await api.ask("GET", "/api/v1/pods", headers=headers))[0] == 200


@pytest.mark.parametrize(
    ("plural", "obj", "field"),
    [
        ("clusterroles", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "rules[0].verbs"),
        ("clusterroles", {"rules": [{"verbs": ["get"]}]}, "rules[0].apiGroups"),
        ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "r"}}, "roleRef.kind"),
    ],
)
async def test_a_role_that_says_nothing_is_refused(
    api: Any, plural: str, obj: dict[str, Any], field: str
) -> None:
    status, body = await api.ask("POST", f"{RBAC}/{plural}", {"metadata": {"name": "x"}, **obj})
    assert (status, field in [c["field"] for c in body["details"]["causes"]]) == (422, True)


async def test_a_binding_keeps_its_role(api: Any) -> None:
    await grant(api, READ, to=account())
    changed = {"roleRef": {"name": "cluster-admin"}}
    media = "application/merge-patch+json"
    status, body = await api.patch(f"{RBAC}/clusterrolebindings/r", media, changed)
    assert (status, "cannot change roleRef" in body["message"]) == (422, True)


@pytest.mark.parametrize(
    "part", ["log", "exec", "attach", "portforward", "ephemeralcontainers", "proxy"]
)
async def test_what_needs_a_container_is_not_implemented(
    api: Any, part: str, golden: Golden
) -> None:
    api.pod("a")
    method = "GET" if part == "log" else "POST"
    status, body = await api.ask(method, f"/api/v1/namespaces/default/pods/a/{part}")
    assert (status, body["reason"]) == (501, "NotImplemented")
    assert body["message"].startswith(golden())
    status, _ = await api.ask(method, f"/api/v1/namespaces/default/pods/none/{part}")
    assert status == 404
