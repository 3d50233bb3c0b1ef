"""The plugins built in; third-party ones will join through the same door."""

from typing import Any

from reactive_desched.api.plugin import Plugin
from reactive_desched.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs

AnyPlugin = Plugin[Any, Any]  # a registry holds plugins of any subject and arguments

BUILT_IN: dict[str, tuple[type[AnyPlugin], type[NodeTaintsArgs] | type[NodeAffinityArgs]]] = {
    NodeTaints.name: (NodeTaints, NodeTaintsArgs),
    NodeAffinity.name: (NodeAffinity, NodeAffinityArgs),
}
