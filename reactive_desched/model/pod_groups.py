"""The rules of groups of pods, as objects of batch systems have them: how many run together.

The pods say by themselves that they are a gang (`model.gangs`); these objects say more, where the
API server has them: Kubernetes' own PodGroups and Workloads, and those of other schedulers.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

from msgspec import Struct

from reactive_desched.model.gangs import (
    COSCHEDULING,
    KAI,
    KOORDINATOR,
    NATIVE,
    VOLCANO,
    Gang,
    gang_of,
)
from reactive_desched.model.objects import Pod

Disruption = Literal["", "Single", "All"]
"""Whether pods of a group may be disrupted one by one, or all together; empty where unsaid."""


class GroupRule(Struct, frozen=True, gc=False):
    """The rule of a group: how many of its pods have to run together, and how they may leave.

    The scheduler places the pods of one that `is_basic` one by one. A `quorum` of None is unknown.
    """

    quorum: int | None = None
    is_basic: bool = False
    disruption: Disruption = ""

    @property
    def is_gang(self) -> bool:
        """Say whether its pods belong together: they are placed so, or disrupted so."""
        return not self.is_basic or self.disruption == "All"

    def spares(self, others: int) -> bool:
        """Say whether a pod may leave by itself beside which so many others run."""
        return self.disruption == "Single" and self.quorum is not None and others >= self.quorum


class PodGroup(Struct, frozen=True, gc=False):
    """A group of pods, by the name that its pods have."""

    system: ClassVar[str]
    """The system whose gangs it is about."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    rule: GroupRule = GroupRule()

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def rules(self) -> Mapping[Gang, GroupRule]:
        """The rule, by its gang."""
        return {Gang(self.namespace, self.system, self.name): self.rule}


class KubernetesPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of Kubernetes 1.36."""

    system = NATIVE


class KubernetesBetaPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of Kubernetes 1.37."""

    system = NATIVE


class CoschedulingPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of the coscheduling plugin."""

    system = COSCHEDULING


class KoordinatorPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of koordinator, which the coscheduling plugin had before 0.24."""

    system = KOORDINATOR


class VolcanoPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of Volcano."""

    system = VOLCANO


class KaiPodGroup(PodGroup, frozen=True, gc=False):
    """A PodGroup of the KAI Scheduler."""

    system = KAI


class KubernetesWorkload(Struct, frozen=True, gc=False):
    """A Workload of Kubernetes 1.35, with the rule of each of its groups, by name."""

    system: ClassVar[str] = NATIVE

    namespace: str
    name: str
    uid: str = ""
    resource_version: int = 0
    groups: tuple[tuple[str, GroupRule], ...] = ()

    @property
    def key(self) -> str:
        """The namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def rules(self) -> Mapping[Gang, GroupRule]:
        """The rules, by their groups."""
        return {
            Gang(self.namespace, self.system, f"{self.name}/{group}"): rule
            for group, rule in self.groups
        }


GroupRecord = PodGroup | KubernetesWorkload

GROUP_RECORDS: Final[tuple[type[GroupRecord], ...]] = (
    KubernetesPodGroup,
    KubernetesBetaPodGroup,
    KubernetesWorkload,
    CoschedulingPodGroup,
    KoordinatorPodGroup,
    VolcanoPodGroup,
    KaiPodGroup,
)


def with_rule(gang: Gang) -> Gang:
    """Return the gang by whose name a rule stands: replicas of a group of a Workload have one."""
    if gang.system != NATIVE or "/" not in gang.name:
        return gang
    return gang._replace(name=gang.name.rpartition("/")[0])


def systems_of(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the systems of the gangs of these pods."""
    return frozenset(gang.system for pod in pods if (gang := gang_of(pod)) is not None)
