"""The whole contract of a plugin on one screen.

A plugin answers two questions: where could this change matter, and what is wrong there now?
It never evicts, waits, reads a clock or talks to a server. The same code serves the reactive
path and the full sweep, so a finding may depend on nothing but the view and the arguments.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.index import Index, IndexT
from reactive_desched.model.changes import Change
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.subjects import NodeOrPod


class View(Protocol):
    """The cluster as plugins may see it: read-only, and only the nodes that count.

    A node counts when it is ready and matches the policy's node selector; pods on other
    nodes are not seen.
    """

    @property
    def now_s(self) -> float:
        """The time of this judgement, in seconds since the epoch (UTC)."""
        ...

    def nodes(self) -> Iterable[Node]:
        """Return the nodes that count."""
        ...

    def pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and its active pods, or None when the node does not count."""
        ...

    def active_pod(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it sits on no node that counts."""
        ...

    def all_pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and pods in any phase, or None when the node does not count."""
        ...

    def pod_and_node(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it is on no node that counts."""
        ...

    def index(self, kind: type[IndexT], args: Hashable = None, /) -> IndexT:
        """Return an index; name it in the plugin's `indexes`, or it is built at the first call."""
        ...


SubjectT = TypeVar("SubjectT", bound=Hashable)
ArgsT = TypeVar("ArgsT", bound=PluginArgs)


class Plugin(ABC, Generic[SubjectT, ArgsT]):
    """One condition under which a pod's place is wrong.

    `name` is what policy files say; `point` is the upstream extension point it runs at;
    `reacts_to` lists every change that can create or alter a finding. `sees_ended` says that
    pods which have ended are judged as well. A sweep decides on one subject's findings before it
    judges the next; one that `gathers` judges every subject first.
    """

    name: ClassVar[str]
    extension_point: ClassVar[str] = "deschedule"
    reacts_to: ClassVar[tuple[type[Change], ...]]
    indexes: ClassVar[tuple[type[Index], ...]] = ()
    judges_completed_pods: ClassVar[bool] = False
    ranks_across_subjects: ClassVar[bool] = False

    def __init__(self, args: ArgsT) -> None:
        self.args = args

    def sweep_passes(self) -> Iterable[Self]:
        """Return what a sweep runs one after the other in this plugin's place: itself."""
        return (self,)

    def matters(self, change: Change) -> bool:
        """Say cheaply whether a change, one of `reacts_to`, may create a finding or alter one.

        It is asked about every such change, so it looks at the change alone. A pod with a blocked
        finding is evaluated again after each of its changes, whatever the answer.
        """
        del change
        return True

    @abstractmethod
    def subjects(self, change: Change, view: View) -> Iterable[SubjectT]:
        """Name what the change may have made right or wrong; too many is slow, too few is a bug."""

    @abstractmethod
    def judge(self, subject: SubjectT, view: View) -> Iterator[Finding | RequeueAfter]:
        """Say what is wrong with the subject as the cluster is now.

        Of the findings yielded together, those of lower `rank` are decided on first.
        """
