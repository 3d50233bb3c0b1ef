from reactive_desched.api import PluginArgs, PodPlugin
from reactive_desched.controller.instances import PluginInstance, Subscriptions
from reactive_desched.model.changes import Change, NodeAdded, NodeTaintsChanged, PodBound, PodChange
from reactive_desched.model.findings import Finding
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import pod
from reactive_desched.testing.scenario import build_view

VIEW = build_view(ClusterState())


class Reacting(PodPlugin[PluginArgs]):
    """Reacts to what it is told to."""

    name = "Reacting"
    reacts_to = ()

    def __init__(self, *reacts_to: type[Change]) -> None:
        super().__init__(PluginArgs())
        vars(self)["reacts_to"] = reacts_to

    def judge(self, subject, view):  # type: ignore[no-untyped-def]  # never asked
        yield Finding(pod("x"), self.name, "never")


class Nobody:
    """A gate that is never asked."""

    decide = settled = None


def instance(*reacts_to: type[Change]) -> PluginInstance:
    return PluginInstance("default", Reacting(*reacts_to), Nobody(), VIEW)  # type: ignore[arg-type]  # never asked


def subscribers(subscriptions: Subscriptions, kind: type[Change]) -> list[PluginInstance]:
    return [each for _, each in subscriptions.by_kind.get(kind, ())]


def test_a_change_goes_to_those_that_react_to_its_kind_in_their_order() -> None:
    first, second = instance(PodBound, NodeAdded), instance(PodBound)
    routes = Subscriptions([first, second])

    assert subscribers(routes, PodBound) == [first, second]
    assert subscribers(routes, NodeAdded) == [first]
    assert subscribers(routes, NodeTaintsChanged) == []


def test_kinds_are_exact() -> None:
    assert subscribers(Subscriptions([instance(PodChange)]), PodBound) == []


def test_the_same_plugin_in_two_profiles_is_two_instances() -> None:
    plugin = NodeTaintsPlugin(NodeTaintsArgs())
    one, two = (PluginInstance(name, plugin, Nobody(), VIEW) for name in ("day", "night"))  # type: ignore[arg-type]  # never asked

    assert one != two
    assert len({one, two}) == 2
    assert one.name == "RemovePodsViolatingNodeTaints"
