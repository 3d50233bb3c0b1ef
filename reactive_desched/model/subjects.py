"""The subjects of plugins: most judge one pod at a time, or all pods of a node at once."""

from msgspec import Struct

from reactive_desched.model.objects import PodKey


class NodeSubject(Struct, frozen=True, gc=False):
    """Every active pod of one node: what a change of the node concerns."""

    node: str


class PodSubject(Struct, frozen=True, gc=False):
    """One pod: what a change of the pod concerns, and how a blocked finding is looked at again."""

    pod: PodKey


class LeftBehind(Struct, frozen=True, gc=False):
    """A pod whose eviction failed while others of its gang left: no plugin finds it by itself."""

    pod: PodKey


NodeOrPod = NodeSubject | PodSubject
