"""Placeholders: pods that keep a place for the replacement of a pod until it is evicted.

A placeholder requests what the pod does, host ports included, in its namespace, by its scheduler,
under the same constraints, and not on the pod's node. It does so container by container: a
LimitRange and a ResourceQuota have let the pod pass, and so let pass what requests the same. It has
none of the pod's labels, so that no controller and no service takes it for its own: its spread
constraints select the pod's siblings by what the pod has, those of the kube-scheduler for pods
without constraints as well. Its owner is the job, with which the garbage collector deletes it, and
it ends by itself when the job's time to live is over.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.nominations import nominate_if_allowed
from reactive_desched.kube.client.responses import ApiResponse, accepted_body
from reactive_desched.kube.client.session import Transport
from reactive_desched.migration.actions import CreatePlaceholder
from reactive_desched.model.migration_jobs import (
    API_VERSION,
    KIND,
    PLACEHOLDER_FOR,
    PLACEHOLDER_FOR_KIND,
    PLACEHOLDER_OF,
    MigrationJob,
)
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.model.opt_outs import DO_NOT_EVICT
from reactive_desched.model.resources import add_resources, parse_resource_list
from reactive_desched.model.spread import DEFAULT_SPREAD
from reactive_desched.policy.settings.migration import PlaceholderSettings

DEFAULT_DEADLINE_S: Final = 3600
"""When the placeholder of a job without a time to live ends by itself."""

MAX_TERMS: Final = 100
"""So many alternatives a placeholder's node affinity has at most."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_COPIED: Final = (
    *("nodeSelector", "tolerations", "schedulerName"),
    "runtimeClassName",
)
_SPREAD_BY_DEFAULT: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""The controllers by whose selectors the kube-scheduler spreads pods that declare no constraint."""

_OF_A_REPLICA_SET: Final = ("pod-template-hash", "rollouts-pod-template-hash")
"""Labels that all pods of a ReplicaSet have, and no others."""

_OF_ONE_POD: Final = (
    *("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"),
    *("controller-revision-hash", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
)
"""Labels that a pod's siblings may not have: those of a StatefulSet's pod, and those of its node,
which the API server copies to each pod since 1.35."""
_OF_PORT: Final = ("containerPort", "hostPort", "protocol", "hostIP")
_JsonObject = dict[str, Any]  # any JSON below the named members


async def keep_place(
    session: Transport, step: CreatePlaceholder, settings: PlaceholderSettings | None
) -> bool:
    """Make the placeholder of a job, unless there is one; raises ClusterError.

    A pod that is gone, or another by now, has none: the job ends for that. Returns whether there is
    one.
    """
    pod = step.pod
    if (written := await read_pod(session, pod)) is None:
        return False
    body = msgspec.json.encode(placeholder(written, step, settings or PlaceholderSettings()))
    made = await session.request("POST", _path(pod.namespace), body=body)
    if made.status != HTTPStatus.CONFLICT:  # an earlier request has made it
        _body(made, pod)
    return True


async def make_room(session: Transport, placeholder: Pod, successor: Pod | None) -> None:
    """Give the place of a placeholder to its successor; raises ClusterError.

    The successor is nominated for the node, and then the placeholder is deleted at once: the
    kube-scheduler counts a nominated pod for others of its priority and below, so that none of them
    takes the room. One that is gone already is no error.
    """
    if successor is not None and not successor.node and placeholder.node:
        await nominate_if_allowed(session, successor, placeholder.node)
    options = {"preconditions": {"uid": placeholder.uid}, "gracePeriodSeconds": 0}
    path = _path(placeholder.namespace, placeholder.name)
    reply = await session.request("DELETE", path, body=msgspec.json.encode(options))
    if reply.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        _body(reply, placeholder)


async def read_pod(session: Transport, pod: Pod) -> _JsonObject | None:
    """Return a pod as the API server has it; None for one that is gone, or another by now."""
    found = await session.request("GET", _path(pod.namespace, pod.name))
    if found.status == HTTPStatus.NOT_FOUND:
        return None
    written = msgspec.json.decode(_body(found, pod), type=_JsonObject)
    return written if written["metadata"]["uid"] == pod.uid else None


def placeholder(
    written: _JsonObject, step: CreatePlaceholder, settings: PlaceholderSettings
) -> _JsonObject:
    """Return the placeholder of a job on a pod, given the pod as the API server has it."""
    job, pod, spec = step.job, step.pod, written["spec"]
    priority = settings.priority_class_name
    spread = _spread_constraints(written, step)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, pod),
        "spec": {
            **{key: spec[key] for key in _COPIED if spec.get(key)},
            **({"topologySpreadConstraints": spread} if spread else {}),
            **({"priorityClassName": priority} if priority else {}),
            "affinity": within(
                step.selectors, away_from((pod.node, *step.avoided), spec.get("affinity") or {})
            ),
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": int(job.ttl_s) or DEFAULT_DEADLINE_S,
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **_containers(pod, spec, settings.image),
        },
    }


def _spread_constraints(written: _JsonObject, step: CreatePlaceholder) -> list[_JsonObject]:
    """Return constraints that count the pods which the replacement's constraints will count.

    As the placeholder has none of the pod's labels, the keys of labels to match become their
    values, and what the kube-scheduler adds for the controller of a pod is written.
    """
    labels = written["metadata"].get("labels") or {}
    if own := written["spec"].get("topologySpreadConstraints"):
        return [_with_values(each, labels) for each in own]
    controller = controller_of(step.pod.owners)
    siblings = _labels_of_siblings(labels)
    if controller is None or controller.kind not in _SPREAD_BY_DEFAULT or not siblings:
        return []
    return [
        {
            "maxSkew": DEFAULT_SPREAD[key],
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": siblings},
        }
        for key in step.spread_keys
    ]


def _labels_of_siblings(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels that select the pods of the same controller."""
    for key in _OF_A_REPLICA_SET:
        if key in labels:
            return {key: labels[key]}
    return {key: value for key, value in labels.items() if key not in _OF_ONE_POD}


def _with_values(constraint: _JsonObject, labels: _JsonObject) -> _JsonObject:
    """Return a constraint whose `matchLabelKeys` are part of its selector."""
    keys, selector = constraint.get("matchLabelKeys") or (), constraint.get("labelSelector")
    if not keys or selector is None:
        return constraint
    values = [
        {"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels
    ]
    selector = {
        **selector,
        "matchExpressions": [*(selector.get("matchExpressions") or ()), *values],
    }
    rest = {key: part for key, part in constraint.items() if key != "matchLabelKeys"}
    return {**rest, "labelSelector": selector}


def _metadata(job: MigrationJob, pod: Pod) -> _JsonObject:
    """Return the metadata of a placeholder: the job owns it, labels name the pod it is for."""
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": job.name, "uid": job.uid}
    controller = controller_of(pod.owners)
    return {
        "name": job.placeholder_name,
        "namespace": pod.namespace,
        "labels": {
            PLACEHOLDER_OF: job.uid,
            PLACEHOLDER_FOR: "" if controller is None else controller.uid,
            PLACEHOLDER_FOR_KIND: "" if controller is None else controller.kind,
        },
        "annotations": {DO_NOT_EVICT: "true"},
        "ownerReferences": [owner],
    }


def away_from(nodes: Iterable[str], affinity: _JsonObject) -> _JsonObject:
    """Return an affinity that also excludes nodes, by each of its terms."""
    excluded = [
        {"key": "metadata.name", "operator": "NotIn", "values": [name]}
        for name in dict.fromkeys(nodes)
        if name
    ]
    if not excluded:
        return affinity
    by_node = affinity.get("nodeAffinity") or {}
    required = by_node.get(_REQUIRED) or {}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *excluded]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    required = {**required, "nodeSelectorTerms": terms}
    return {**affinity, "nodeAffinity": {**by_node, _REQUIRED: required}}


def within(selectors: Iterable[NodeSelector], affinity: _JsonObject) -> _JsonObject:
    """Return an affinity that requires each of the selectors as well; raises RequestRejected.

    Terms are alternatives, so each term is joined with each one of a selector.
    """
    by_node = affinity.get("nodeAffinity") or {}
    required = by_node.get(_REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    for selector in selectors:
        terms = [
            _joined(term, more)
            for term in terms
            for more in map(_term, selector.node_selector_terms)
        ]
        if not 0 < len(terms) <= MAX_TERMS:
            text = f"{len(terms)} nodeSelectorTerms say where the replacement can be"
            raise RequestRejected(text, retryable=False)
    if terms == [{}]:
        return affinity
    required = {**required, "nodeSelectorTerms": terms}
    return {**affinity, "nodeAffinity": {**by_node, _REQUIRED: required}}


def _term(term: NodeSelectorTerm) -> _JsonObject:
    return {
        "matchExpressions": msgspec.to_builtins(term.match_expressions),
        "matchFields": msgspec.to_builtins(term.match_fields),
    }


def _joined(term: _JsonObject, more: _JsonObject) -> _JsonObject:
    """Return a term that holds where both do."""
    joined = {
        key: [*(term.get(key) or ()), *more[key]] for key in ("matchExpressions", "matchFields")
    }
    return {key: parts for key, parts in joined.items() if parts}


def _containers(pod: Pod, spec: _JsonObject, image: str) -> _JsonObject:
    """Return containers that request what those of a pod do.

    A container that runs before the others is among them only where the pod requests more for it.
    """
    containers, before = spec.get("containers") or (), spec.get("initContainers") or ()
    sidecars = [each for each in before if each.get("restartPolicy") == "Always"]
    while_it_runs = parse_resource_list(spec.get("overhead") or {})
    for each in (*containers, *sidecars):
        add_resources(while_it_runs, parse_resource_list(_resources(each).get("requests") or {}))
    has_room = all(
        amount <= while_it_runs.get(name, 0) for name, amount in pod.spec.requests.items()
    )
    kept = sidecars if has_room else before
    pod_level = _resources(spec)
    return {
        "containers": [_container(each, image) for each in containers],
        **({"initContainers": [_container(each, image) for each in kept]} if kept else {}),
        **({"resources": pod_level} if pod_level else {}),
    }


def _container(like: _JsonObject, image: str) -> _JsonObject:
    """Return a container that does nothing, with the requests, limits and host ports of another."""
    ports = [port for port in like.get("ports") or () if port.get("hostPort")]
    return {
        "name": like["name"],
        "image": image,
        "resources": _resources(like),
        "ports": [{key: port[key] for key in _OF_PORT if port.get(key)} for port in ports],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **{key: like[key] for key in ("restartPolicy",) if like.get(key)},
    }


def _resources(of: _JsonObject) -> _JsonObject:
    """Return the requests and limits of a container or a pod, without its ResourceClaims."""
    written = of.get("resources") or {}
    return {key: written[key] for key in ("requests", "limits") if written.get(key)}


def _body(reply: ApiResponse, pod: Pod) -> bytes:
    return accepted_body(reply, f"placeholder of {pod}")


def _path(namespace: str, name: str = "") -> str:
    one = f"/{quote(name, safe='')}" if name else ""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods{one}"
