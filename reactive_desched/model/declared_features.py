"""Features that a pod needs of its node and that nodes declare in `status.declaredFeatures`.

The kube-scheduler's filter NodeDeclaredFeatures (KEP-5328, since 1.35) infers them from the spec.
"""

from typing import Final

from reactive_desched.model.scheduling import FitReason

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
"""A rule of a container restarts all containers of the pod (1.35)."""

USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
"""The pod has its own users and the network of its node: hostUsers false, hostNetwork (1.36)."""

FEATURES_LACKING: Final = FitReason(
    "NodeFeaturesLacking", "node(s) didn't match Pod's required features"
)
