"""kubectl for tests that look again and again: what it can, it asks the API server for itself.

A process of kubectl takes a tenth of a second of the processor. Tests that wait look several times
a second, and those that compare us with the scheduler create and delete hundreds of pods.
"""

import argparse
import http.client
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from tests.support.kubectl import Kubectl, KubectlError, Object

__all__ = ["QuickKubectl"]

_CORE: Final = "api/v1"
_PLACES: Final = {
    "configmaps": _CORE,
    "events": _CORE,
    "persistentvolumeclaims": _CORE,
    "pods": _CORE,
    "serviceaccounts": _CORE,
    "deployments": "apis/apps/v1",
    "replicasets": "apis/apps/v1",
    "jobs": "apis/batch/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "resourceclaims": "apis/resource.k8s.io/v1",
}
_PLACES_OF_THE_CLUSTER: Final = {
    "namespaces": _CORE,
    "nodes": _CORE,
    "persistentvolumes": _CORE,
    "csinodes": "apis/storage.k8s.io/v1",
    "deviceclasses": "apis/resource.k8s.io/v1",
    "devicetaintrules": "apis/resource.k8s.io/v1beta2",
    "resourceslices": "apis/resource.k8s.io/v1",
    "podmigrationjobs": "apis/scheduling.koordinator.sh/v1alpha1",
}
_SHORT: Final = {"pdb": "poddisruptionbudgets", "pvc": "persistentvolumeclaims"}


_WRITES: Final = 10
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class QuickKubectl(Kubectl):
    """kubectl, of which reading and creating are requests of this process."""

    def apply(self, *objects: Object) -> None:
        """Create or change objects, as `Kubectl.apply` does.

        From the first one on that is there already, or is refused, kubectl does it, and says why.
        """
        for place, each in enumerate(objects):
            if not self._is_created(each):
                super().apply(*objects[place:])
                return

    def erase(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object at once; it is gone then, unless a finalizer holds it."""
        path = f"{_PLACES[kind]}/namespaces/{namespace}/{kind}/{name}"
        self._send("DELETE", path, {"gracePeriodSeconds": 0})

    def taint(self, node: str, taint: str) -> None:
        """Add a taint written `key=value:Effect`, or take those of `key-`, as `kubectl taint`."""
        text, _, effect = taint.rpartition(":")
        key, _, value = text.partition("=")
        new = [] if taint.endswith("-") else [{"key": key, "value": value, "effect": effect}]
        for attempt in range(_WRITES):
            (found,) = self.get("node", node)
            kept = [each for each in found["spec"].get("taints", ()) if f"{each['key']}-" != taint]
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            try:
                change = {"metadata": version, "spec": {"taints": [*kept, *new]}}
                self._send("PATCH", f"api/v1/nodes/{node}", change, "application/merge-patch+json")
            except KubectlError:  # others write to nodes, too
                if attempt == _WRITES - 1:
                    raise
            else:
                return

    def get(self, kind: str, *arguments: str) -> list[Object]:
        """Return the objects of a kind, as `Kubectl.get` does."""
        plural = _SHORT.get(kind, kind if kind.endswith("s") else f"{kind}s")
        asked, others = _options().parse_known_intermixed_args(arguments)
        place = _PLACES.get(plural)
        if others or len(asked.names) > 1 or not (place or plural in _PLACES_OF_THE_CLUSTER):
            return super().get(kind, *arguments)
        if place is None:
            path = f"{_PLACES_OF_THE_CLUSTER[plural]}/{plural}"
        elif asked.everywhere:
            path = f"{place}/{plural}"
        else:
            path = f"{place}/namespaces/{asked.namespace}/{plural}"
        selectors = {"labelSelector": asked.labels, "fieldSelector": asked.fields}
        query = urlencode({key: text for key, text in selectors.items() if text})
        answer = self._send("GET", f"{'/'.join((path, *asked.names))}?{query}")
        return [_as_shown(each, answer) for each in answer.get("items", [answer])]

    def _is_created(self, new: Object) -> bool:
        """Create an object; say whether the API server has taken it."""
        metadata = new["metadata"]
        annotations = {**metadata.get("annotations", {}), _APPLIED: json.dumps(new)}
        sent = {**new, "metadata": {**metadata, "annotations": annotations}}
        group = "api" if "/" not in new["apiVersion"] else "apis"
        within = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
        path = f"{group}/{new['apiVersion']}/{within}{_plural(new['kind'])}"
        query = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
        try:
            self._send("POST", f"{path}?{query}", sent)
        except KubectlError:
            return False
        return True

    def _send(
        self, method: str, path: str, body: Object | None = None, media: str = "application/json"
    ) -> Object:
        server, token, trust = self._access
        request = urllib.request.Request(
            f"{server}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": media},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s, context=trust) as answer:
                found: Object = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                told = error.read().decode()
            raise KubectlError(f"{method} {path}: {told}") from error
        except (OSError, http.client.HTTPException) as error:
            raise KubectlError(f"{method} {path}: {error}") from error

    @cached_property
    def _access(self) -> tuple[str, str, ssl.SSLContext]:
        config = json.loads(self.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        trust = ssl.create_default_context(cafile=Path(cluster["certificate-authority"]))
        return cluster["server"], config["users"][0]["user"]["token"], trust


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-n", dest="namespace", default="default")
    parser.add_argument("-A", dest="everywhere", action="store_true")
    parser.add_argument("-l", dest="labels")
    parser.add_argument("--field-selector", dest="fields")
    return parser


def _as_shown(found: Object, answer: Object) -> Object:
    """Return an object as kubectl shows it: of a list without its kind, and with no managers."""
    found["metadata"].pop("managedFields", None)
    head = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
    return {**head, **found}


def _plural(kind: str) -> str:
    """Return how paths name a kind, such as `PriorityClass` or `NetworkPolicy`."""
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"
