"""Plugins come from entry points, our own too; what is wrong with a package is named."""

from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import iter_modules

import pytest
from msgspec.structs import replace

from reactive_desched import plugins as built_in_plugins
from reactive_desched.api.plugin import Plugin
from reactive_desched.errors import PluginError
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.registry import (
    GROUP,
    InstalledPlugins,
    plugin_registry,
)
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.registry import PluginSpec
from tests.support.golden import Golden
from tools.write_entry_points import PYPROJECT, declared, plugin_name, sink_name, with_entry_points

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: day
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsViolatingNodeTaints
    args: {excludedTaints: [gpu]}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]
- name: night
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""
BUILT_IN = {
    plugin.name
    for module in iter_modules(built_in_plugins.__path__, f"{built_in_plugins.__name__}.")
    for plugin in vars(import_module(module.name)).values()
    if isinstance(plugin, type) and issubclass(plugin, Plugin) and "name" in vars(plugin)
}


def profiles(text: str) -> tuple[Profile, ...]:
    return load_sources([SourceText(text, "p.yaml")], plugin_registry()).policy.profiles


def offered(**values: str) -> InstalledPlugins:
    return InstalledPlugins(EntryPoint(name, value, GROUP) for name, value in values.items())


def test_every_profile_has_its_plugins_in_order_with_their_arguments() -> None:
    day, night = profiles(POLICY)

    assert (day.name, night.name) == ("day", "night")
    taints, affinity = day.plugins
    assert isinstance(taints, NodeTaintsPlugin)
    assert isinstance(affinity, NodeAffinityPlugin)
    assert taints.args == NodeTaintsArgs(excluded_taints=("gpu",))
    assert affinity.args == NodeAffinityArgs(node_affinity_type=(REQUIRED,))
    [nightly] = night.plugins
    assert nightly.args == NodeTaintsArgs()


def test_every_profile_has_an_evictor_of_its_own() -> None:
    day, night = profiles(POLICY)

    assert (day.evictor.node_fit, night.evictor.node_fit) == (True, False)


def test_the_built_in_plugins_come_through_entry_points() -> None:
    plugins = plugin_registry()

    assert set(plugins.built_in()) == BUILT_IN
    for name in BUILT_IN:
        spec = plugins[name]
        assert spec.plugin is not None
        assert (spec.plugin.name, spec.points) == (
            name,
            frozenset({spec.plugin.extension_point}),
        )
    spec = replace(plugins["RemovePodsViolatingNodeTaints"], origin="")
    assert spec == PluginSpec(NodeTaintsArgs, frozenset({"deschedule"}), plugin=NodeTaintsPlugin)


def test_a_plugin_is_imported_when_it_is_asked_for(golden: Golden) -> None:
    plugins = offered(Broken="no_such_module:Broken")

    assert "Broken" in plugins
    assert len(plugins) == 1
    with pytest.raises(PluginError) as caught:
        plugins["Broken"]
    assert str(caught.value) == golden()


class Unfinished(Plugin[str, NodeTaintsArgs]):
    name = "Unfinished"


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("Path", "pathlib:Path", "is not a subclass of reactive_desched.api.Plugin"),
        ("Dumps", "json:dumps", "is not a subclass of reactive_desched.api.Plugin"),
        (
            "Unfinished",
            "tests.plugins.test_registry:Unfinished",
            "does not define evaluate, subjects",
        ),
        (
            "Taints",
            "reactive_desched.plugins.node_taints:NodeTaintsPlugin",
            "NodeTaintsPlugin.name is 'RemovePodsViolatingNodeTaints'",
        ),
        ("Gone", "json:no_such_name", "AttributeError"),
    ],
)
def test_what_is_no_plugin_is_refused_with_its_package(
    name: str, value: str, wrong: str, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent.parent))
    with pytest.raises(PluginError) as caught:
        offered(**{name: value})[name]

    assert golden() in str(caught.value)
    assert wrong in str(caught.value)


def test_two_packages_cannot_offer_the_same_name(golden: Golden) -> None:
    ours = "reactive_desched.plugins.node_taints:NodeTaintsPlugin"
    entries = [EntryPoint("PodLifeTime", value, GROUP) for value in (ours, "theirs:Plugin")]

    with pytest.raises(PluginError) as caught:
        InstalledPlugins(entries)["PodLifeTime"]

    assert str(caught.value) == golden()


def install(folder: Path, package: str, metadata: str) -> None:
    """Lay out a package that offers the plugin Own, as pip would."""
    info = folder / f"{package}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata)
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nOwn = {package[:3]}_module:Own\n")


def test_packages_are_named_by_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    install(tmp_path, "one-1.0", "Metadata-Version: 2.1\nName: One.Pods\nVersion: 1.0\n\nText\n")
    install(tmp_path, "two-2.0", "")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(PluginError) as caught:
        plugin_registry()["Own"]

    assert str(caught.value) == golden()


def test_of_a_package_that_is_installed_twice_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    install(old, "own-1.0", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n\n")
    install(new, "own-2.0", "Metadata-Version: 2.1\nName: own\nVersion: 2.0\n\n")
    for folder in (old, new):
        monkeypatch.syspath_prepend(str(folder))

    with pytest.raises(PluginError, match=r"of own 2\.0 cannot be loaded"):
        plugin_registry()["Own"]


def test_without_package_metadata_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactive_desched.plugins.registry.installed_in", lambda group: ())

    with pytest.raises(PluginError, match="install it again"):
        plugin_registry()


def test_a_broken_plugin_that_no_policy_names_harms_nothing() -> None:
    text = POLICY.replace("RemovePodsViolatingNodeTaints", "RemoveFailedPods").replace(
        "{excludedTaints: [gpu]}", "{}"
    )
    registry = InstalledPlugins(
        [
            EntryPoint("Broken", "no_such_module:Broken", GROUP),
            EntryPoint(
                "RemoveFailedPods",
                "reactive_desched.plugins.failed_pods:FailedPodsPlugin",
                GROUP,
            ),
            EntryPoint(
                "RemovePodsViolatingNodeAffinity",
                "reactive_desched.plugins.node_affinity:NodeAffinityPlugin",
                GROUP,
            ),
        ]
    )
    read = load_sources([SourceText(text, "p.yaml")], registry)
    assert [p.name for p in read.policy.profiles[1].plugins] == ["RemoveFailedPods"]


def test_an_entry_point_that_is_missing_wrong_or_too_many_is_mended() -> None:
    text = PYPROJECT.read_text(encoding="utf-8")
    [line] = [each for each in text.splitlines(keepends=True) if each.startswith("PodLifeTime =")]
    for wrong in ("", line.replace("PodLifeTime =", "PodLife ="), line + "Extra = 'x:Y'\n"):
        assert with_entry_points(text.replace(line, wrong)) == text


def test_the_name_of_a_plugin_is_read_from_its_class_alone() -> None:
    text = 'name = "no"\nclass A(Base):\n    name = "Yes"\n    other = "no"\nclass B:\n    name = a'
    assert declared(text, plugin_name) == [("Yes", "A")]


def test_a_sink_of_ours_is_offered_by_the_name_of_its_class() -> None:
    text = (
        "class SpoolSink:\n    settings = A\nclass OtherSink: pass\nclass Spool:\n    settings = A"
    )

    assert declared(text, sink_name) == [("spool", "SpoolSink")]
