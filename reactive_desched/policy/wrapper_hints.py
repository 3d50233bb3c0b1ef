"""Hints about texts around a policy, such as a ConfigMap; the same for both formats."""

from collections.abc import Mapping
from typing import Final

WRAPPERS: Final[Mapping[str, str]] = {
    "metadata": "a policy is not a Kubernetes object: it has no metadata and no spec",
    "spec": "a policy is not a Kubernetes object: write what is below spec at the top level",
    "data": "this looks like a ConfigMap: give the text inside it",
    "deschedulerPolicy": "this looks like Helm values: write what is below it at the top level",
    "tracing": "tracing is not configured in the policy",
}
