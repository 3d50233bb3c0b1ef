"""Finds what a request names, and says what may be meant where there is no such object."""

from reactive_desched.api.index import NodeInfo
from reactive_desched.errors import ConfigError
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.hints import did_you_mean, quote
from reactive_desched.state.cluster import ClusterView


def known_node(view: ClusterView, name: str) -> NodeInfo:
    """Return what is known of a node; raises ConfigError where there is none of that name."""
    info = view.node_info(name)
    if info is None or info.node is None:
        raise ConfigError(f"there is no node {quote(name)}; {_nodes_meant(name, view)}")
    return info


def _nodes_meant(name: str, view: ClusterView) -> str:
    """Say which nodes there are; of an earlier moment those that kubectl lists are no answer."""
    names = [each.name for each in view.node_infos() if each.node]
    if not names:
        return "no node is known"
    return did_you_mean(name, names) or (
        f"{len(names):,} nodes are known, such as {min(names)} and {max(names)}"
    )


def is_pod(pod: Pod, name: str) -> bool:
    """Say whether a pod is the one that NAMESPACE/NAME or a uid names."""
    return name in (pod.uid, f"{pod.namespace}/{pod.name}")


def no_pods_of(owner: str) -> ConfigError:
    """Return the error for an owner that has no pod."""
    return ConfigError(
        f"no pod belongs to {quote(owner)}; write NAMESPACE/KIND/NAME, for example "
        "shop/Deployment/web, or a uid"
    )
