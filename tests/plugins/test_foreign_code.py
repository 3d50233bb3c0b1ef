"""What the code of another package raises refuses a policy, and the message names the package."""

import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from pydantic import field_validator, model_validator

from reactive_desched.api import BalancePlugin, PluginArgs, PodPlugin
from reactive_desched.api.args import FieldError
from reactive_desched.api.balance_plugin import SweepFilters
from reactive_desched.errors import PluginError
from reactive_desched.model.changes import Resynced
from reactive_desched.plugins.node_taints import NodeTaintsPlugin
from reactive_desched.plugins.registry import GROUP, InstalledPlugins
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.hung_calls import hung_calls_ended
from tests.support.golden import Golden
from tests.support.reloading_bench import HEAD, SETTINGS, ReloaderBench, policy_text

ROOT = Path(__file__).parent.parent.parent
TAINTS = EntryPoint(
    NodeTaintsPlugin.name, "reactive_desched.plugins.node_taints:NodeTaintsPlugin", GROUP
)
ENABLED = "  plugins: {{{1}: {{enabled: [{0}]}}}}\n"
ARGUMENTS = "  pluginConfig: [{{name: {0}, args: {{price: 1}}}}]\n"


class Base(PodPlugin[PluginArgs]):
    """A plugin in order; those below are wrong in one thing."""

    name = "Base"
    reacts_to = (Resynced,)

    def judge(self, subject: Any, view: Any) -> Any:
        yield from ()


class Unmade(Base):
    name = "Unmade"

    def __init__(self, args: PluginArgs) -> None:
        super().__init__(args)
        raise KeyError("PRICE_LIST")


class Exits(Base):
    name = "Exits"

    def __init__(self, args: PluginArgs) -> None:
        super().__init__(args)
        sys.exit("no licence")


class ValidatorArgs(PluginArgs):
    price: int = 0

    @field_validator("price")
    @classmethod
    def check(cls, value: int) -> int:
        return {0: 0}[value]


class Validator(PodPlugin[ValidatorArgs]):
    name = "Validator"
    reacts_to = (Resynced,)
    judge = Base.judge


class AfterArgs(PluginArgs):
    price: int = 0

    @model_validator(mode="after")
    def check(self) -> "AfterArgs":
        raise ZeroDivisionError


class After(Validator):
    """It cannot even be checked without arguments."""

    name = "After"
    __orig_bases__ = (PodPlugin[AfterArgs],)


class WarnerArgs(PluginArgs):
    price: int = 0

    def warnings(self) -> Iterable[FieldError]:
        raise ZeroDivisionError


class Warner(Validator):
    name = "Warner"
    __orig_bases__ = (PodPlugin[WarnerArgs],)


class OneChange(Base):
    name = "OneChange"
    reacts_to: ClassVar[Any] = Resynced


class NamedChange(Base):
    name = "NamedChange"
    reacts_to: ClassVar[Any] = ("Resynced",)


class ForeignIndex(Base):
    name = "ForeignIndex"
    indexes: ClassVar[Any] = (dict,)


class Point(Base):
    name = "Point"
    extension_point = "filter"


class NoPairs(Base):
    name = "NoPairs"
    required_indexes: Any = (dict,)


class NoIndexes(Base):
    name = "NoIndexes"

    @property
    def required_indexes(self) -> Any:
        return getattr(self.args, "shares")  # noqa: B009 -- the fault


class NoSources(Base):
    name = "NoSources"

    @property
    def usage_sources(self) -> Any:
        return [7]


class NoPair(Base):
    name = "NoPair"

    @property
    def sick_conditions(self) -> Any:
        return [7]


class NoWait(Base):
    name = "NoWait"
    least_debounce: ClassVar[Any] = 5


class NoAnswer(Base):
    name = "NoAnswer"
    splits_nodes: ClassVar[Any] = property(lambda _: 1 / 0)


class NoFilters(BalancePlugin[str, PluginArgs]):
    name = "NoFilters"
    reacts_to = (Resynced,)
    sweep_filters: ClassVar[Any] = "all"

    def subjects(self, change: Any, view: Any) -> Any:
        return ()

    def balance(self, subject: Any, view: Any) -> Any:
        yield from ()


class NoResources(NoFilters):
    name = "NoResources"
    sweep_filters = SweepFilters.ALL

    @property
    def packed_resources(self) -> Any:
        return [7]


WRONG = [
    pytest.param(each, id=each.name)
    for each in (
        Unmade,
        Exits,
        Validator,
        After,
        Warner,
        OneChange,
        NamedChange,
        ForeignIndex,
        Point,
        NoPairs,
        NoIndexes,
        NoSources,
        NoPair,
        NoWait,
        NoAnswer,
        NoFilters,
        NoResources,
    )
]


def installed(plugin: type[AnyPlugin]) -> InstalledPlugins:
    value = f"{__name__}:{plugin.__name__}"
    return InstalledPlugins([TAINTS, EntryPoint(plugin.name, value, GROUP)])


def text_of(plugin: type[AnyPlugin]) -> str:
    takes = plugin in (Validator, Warner)
    form = f"{HEAD}profiles:\n- name: night\n{ARGUMENTS if takes else ''}{ENABLED}"
    point = plugin.extension_point if plugin.extension_point == "balance" else "deschedule"
    return form.format(plugin.name, point)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.parametrize("plugin", WRONG)
def test_a_policy_is_refused_with_the_package_and_what_to_do(
    plugin: type[AnyPlugin], golden: Golden
) -> None:
    with pytest.raises(PluginError) as caught:
        load_sources([SourceText(text_of(plugin), "p.yaml")], installed(plugin))

    assert str(caught.value) == golden()


@pytest.mark.anyio
@pytest.mark.virtual_time
@pytest.mark.parametrize("plugin", WRONG)
async def test_a_reload_keeps_the_policy_in_force(
    plugin: type[AnyPlugin], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text("first"))
    monkeypatch.setattr("tests.support.reloading_bench.plugin_registry", lambda: installed(plugin))
    async with ReloaderBench(path).running() as bench:
        bench.write(text_of(plugin))
        await anyio.sleep(5)
        assert bench.configs == []
        [problem] = bench.active.problems
        assert f"the plugin {plugin.name} " in problem
        bench.write(policy_text("third"))
        await anyio.sleep(5)

    assert bench.names == ["third"]


@pytest.mark.parametrize("plugin", WRONG)
def test_settings_of_a_policy_without_it_are_read(plugin: type[AnyPlugin]) -> None:
    settings = f"{SETTINGS}debounce: {{perChange: {{Resynced: {{quiet: 1s}}}}}}\n"
    text = f"{policy_text('first')}---\n{settings}"
    read = load_sources([SourceText(text, "p.yaml")], installed(plugin))

    assert [each.name for each in read.policy.profiles[0].plugins] == [NodeTaintsPlugin.name]


HANGING_MODULE = """
import itertools
for _ in itertools.count():
    pass
"""


class HangingConstructor(Base):
    name = "HangingConstructor"

    def __init__(self, args: PluginArgs) -> None:
        super().__init__(args)
        for _ in count():
            pass


class HangingValidatorArgs(PluginArgs):
    price: int = 0

    @field_validator("price")
    @classmethod
    def check(cls, value: int) -> int:
        for _ in count():
            pass
        return value


class HangingValidator(PodPlugin[HangingValidatorArgs]):
    name = "HangingValidator"
    reacts_to = (Resynced,)

    def judge(self, subject: Any, view: Any) -> Any:
        yield from ()


@pytest.mark.parametrize("plugin", [HangingConstructor, HangingValidator])
def test_a_constructor_or_validator_that_does_not_return_is_ended_and_named(
    plugin: type[AnyPlugin], golden: Golden
) -> None:
    form = f"{HEAD}profiles:\n- name: night\n{ARGUMENTS}{ENABLED}"
    takes_price = plugin is HangingValidator
    text = form.format(plugin.name, "deschedule") if takes_price else text_of(plugin)
    with hung_calls_ended(limit_s=0.2, beat_s=0.05), pytest.raises(PluginError) as caught:
        load_sources([SourceText(text, "p.yaml")], installed(plugin))

    assert str(caught.value) == golden()


def test_a_module_that_does_not_end_is_ended_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    (tmp_path / "endless_plugin.py").write_text(HANGING_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = InstalledPlugins([EntryPoint("Endless", "endless_plugin:Endless", GROUP)])
    text = f"{HEAD}profiles:\n- name: night\n{ENABLED}".format("Endless", "deschedule")
    with hung_calls_ended(limit_s=0.2, beat_s=0.05), pytest.raises(PluginError) as caught:
        load_sources([SourceText(text, "p.yaml")], plugins)

    assert str(caught.value) == golden()
