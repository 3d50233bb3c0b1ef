"""A balance plugin for tests: it moves the pods of some nodes to others."""

from collections.abc import Iterable

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.model.changes import Change, PodBound, Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import NodeSubject


class MovingArgs(PluginArgs):
    """From which nodes the pods should go, and to which ones."""

    sources: tuple[str, ...] = ("n1",)
    targets: frozenset[str] = frozenset({"n2"})
    relieves_node: bool = False


class Moving(BalancePlugin[str, MovingArgs]):
    """Proposes every pod of the sources, in the order of their names; it has one subject."""

    name = "Moving"
    reacts_to = (Resynced, PodBound)

    def __init__(self, args: MovingArgs) -> None:
        super().__init__(args)
        self.plans = 0

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the subject where a pod was bound to a source."""
        if isinstance(change, PodBound) and change.pod.node not in self.args.sources:
            return ()
        return ("sources",)

    def balance(self, subject: str, view: View) -> Plan:
        """Propose one pod after the other, whatever is decided on them."""
        self.plans += 1
        places = [view.pods_of(NodeSubject(source)) for source in self.args.sources]
        pods = [pod for place in places if place is not None for pod in place[1]]
        for pod in sorted(pods, key=lambda pod: pod.name):
            yield Finding(
                pod,
                self.name,
                "the sources are full",
                targets=self.args.targets,
                relieves_node=self.args.relieves_node,
            )
