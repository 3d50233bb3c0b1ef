"""The codecs of the watched kinds by name, each with the type of its records."""

from dataclasses import dataclass

from reactive_desched.kube.codec import AnyCodec, Codec, ResourceCodec
from reactive_desched.model.objects import (
    CSINode,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.model.usage import NodeMetric
from reactive_desched.state.kinds.csi_node import CSI_NODE
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.job import JOB
from reactive_desched.state.kinds.namespace import NAMESPACE
from reactive_desched.state.kinds.node import NODE
from reactive_desched.state.kinds.node_metric import NODE_METRIC
from reactive_desched.state.kinds.owners import REPLICA_SET
from reactive_desched.state.kinds.pdb import PDB
from reactive_desched.state.kinds.pod import POD
from reactive_desched.state.kinds.priority_class import PRIORITY_CLASS
from reactive_desched.state.kinds.pv import PV
from reactive_desched.state.kinds.pvc import PVC
from reactive_desched.state.resources import WATCHED_KINDS

__all__ = ["Codecs", "make_codecs"]


@dataclass(frozen=True)
class Codecs:
    """A typed codec for each kind that tests read, all over the same intern tables."""

    tables: InternTables

    pods: Codec[Pod]
    nodes: Codec[Node]
    node_metrics: Codec[NodeMetric]
    namespaces: Codec[Namespace]
    priority_classes: Codec[PriorityClass]
    pdbs: Codec[PodDisruptionBudget]
    pvcs: Codec[PersistentVolumeClaim]
    pvs: Codec[PersistentVolume]
    csi_nodes: Codec[CSINode]
    replica_sets: Codec[ReplicaSet]
    jobs: Codec[Job]

    def all(self) -> list[AnyCodec]:
        """Return a codec for every watched kind."""
        return [ResourceCodec(kind, self.tables) for kind in WATCHED_KINDS.values()]


def make_codecs(tables: InternTables) -> Codecs:
    """Return all codecs over these tables."""
    return Codecs(
        tables=tables,
        pods=ResourceCodec(POD, tables),
        nodes=ResourceCodec(NODE, tables),
        node_metrics=ResourceCodec(NODE_METRIC, tables),
        namespaces=ResourceCodec(NAMESPACE, tables),
        priority_classes=ResourceCodec(PRIORITY_CLASS, tables),
        pdbs=ResourceCodec(PDB, tables),
        pvcs=ResourceCodec(PVC, tables),
        pvs=ResourceCodec(PV, tables),
        csi_nodes=ResourceCodec(CSI_NODE, tables),
        replica_sets=ResourceCodec(REPLICA_SET, tables),
        jobs=ResourceCodec(JOB, tables),
    )
