"""Selects the pods of a preview's answer; decisions on all others are left out."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter, is_pattern
from reactive_desched.model.objects import Pod
from reactive_desched.plan.assumed_cluster import original_name
from reactive_desched.plan.evaluation import PlanResult
from reactive_desched.plan.report import PlannedDecision
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy
from reactive_desched.primitives.hints import not_one_of
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.resources import PODS
from reactive_desched.text.workloads import workload_words

__all__ = ["PodSelection", "check_plugins"]

_PLUGINS: Final = "plugins"


class _PodValues(Struct):
    """The values of one pod that the words of a filter are compared with."""

    pod: Pod
    view: ClusterView

    def field_values(self, field: str) -> Collection[str]:
        """Return the pod's values of a field of the filter."""
        pod = self.pod
        match field:
            case "namespaces":
                return (pod.namespace,)
            case "pods":
                return pod.name, f"{pod.namespace}/{pod.name}", pod.uid
            case "nodes":
                return (pod.node,)
            case _:
                chain = self.view.index(OwnerIndex).chain(pod) or pod.owners
                return [
                    word
                    for each in chain
                    for word in workload_words(each.kind, pod.namespace, each.name, each.uid)
                ]


def check_plugins(words: Mapping[str, tuple[str, ...]], policy: Policy) -> None:
    """Raise ConfigError where `words` name a plugin that the policy does not enable."""
    enabled = policy.plugin_names
    for name in words.get(_PLUGINS, ()):
        if name not in enabled and not is_pattern(name):
            raise ConfigError(f"--plugin {not_one_of(name, sorted(enabled))}")


class PodSelection:
    """The pods and plugins that `words` name: for each field, one of its words must fit.

    The fields and the grammar are those of `EventFilter`, of which pods, namespaces, nodes, owners
    and plugins may be given.
    """

    def __init__(
        self, words: Mapping[str, tuple[str, ...]], snapshot: Snapshot, view: ClusterView
    ) -> None:
        wanted = EventFilter(
            **{field: given for field, given in words.items() if field != _PLUGINS}
        )
        self._plugins = words.get(_PLUGINS, ())
        self.pods: Sequence[Pod] = [
            pod for pod in snapshot.pods if wanted.matches(_PodValues(pod, view))
        ]
        self._names = {(pod.namespace, pod.name) for pod in self.pods}

    def in_policy(self, policy: Policy) -> Policy:
        """Return the policy with these plugins alone."""
        profiles = tuple(
            dataclasses.replace(
                profile, plugins=tuple(p for p in profile.plugins if self._takes(p.name))
            )
            for profile in policy.profiles
        )
        return replace(policy, profiles=profiles)

    def in_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with these pods alone."""
        return replace(snapshot, objects={**snapshot.objects, PODS: self.pods})

    def in_result(self, result: PlanResult) -> PlanResult:
        """Return the decisions on these pods, and on the replacements of these, alone."""
        return replace(result, decisions=tuple(filter(self._is_wanted, result.decisions)))

    def _is_wanted(self, decision: PlannedDecision) -> bool:
        pod = decision.pod
        name = pod.namespace, original_name(pod.name)
        return self._takes(decision.plugin) and name in self._names

    def _takes(self, plugin: str) -> bool:
        return not self._plugins or EventFilter(plugins=self._plugins).matches(_Plugin(plugin))


class _Plugin(Struct):
    """The name of a plugin, as a filter reads it."""

    name: str

    def field_values(self, _: str) -> Collection[str]:
        """Return the name."""
        return (self.name,)
