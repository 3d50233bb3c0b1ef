"""Finds what a request names, and says what may be meant where there is no such object."""

from reactive_desched.api.index import NodeInfo
from reactive_desched.errors import ConfigError
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.hints import nearest_name, quote
from reactive_desched.state.cluster import ClusterView


def known_node(view: ClusterView, name: str) -> NodeInfo:
    """Return what is known of a node; raises ConfigError where there is none of that name."""
    info = view.node_info(name)
    if info is None or info.node is None:
        near = nearest_name(name, [each.name for each in view.node_infos() if each.node])
        hint = f"did you mean {near}?" if near else "`kubectl get nodes` lists them"
        raise ConfigError(f"there is no node {quote(name)}; {hint}")
    return info


def is_pod(pod: Pod, name: str) -> bool:
    """Say whether a pod is the one that NAMESPACE/NAME or a uid names."""
    return name in (pod.uid, f"{pod.namespace}/{pod.name}")


def no_pods_of(owner: str) -> ConfigError:
    """Return the error for an owner that has no pod."""
    return ConfigError(
        f"no pod belongs to {quote(owner)}; write NAMESPACE/KIND/NAME, for example "
        "shop/Deployment/web, or a uid"
    )
