"""A source of measured use of another package: policies name it, and its faults stay with it."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from reactive_desched.api.installed import Offers
from reactive_desched.api.usage_source import UsageHost, UsageSourceSettings, usage_offers
from reactive_desched.app.plugin_watchdog import PluginWatchdog
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.usage.installed import InstalledSource
from reactive_desched.usage.sources import open_sources
from tests.support.golden import Golden
from tests.support.packages import write_package

pytestmark = pytest.mark.anyio

GROUP = "reactive_desched.usage_sources"
EXAMPLE = Path(__file__).parents[2] / "examples" / "usage" / "node_file.py"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: SOURCE}]
profiles:
- name: own
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 60}
      metricsUtilization: {source: SOURCE}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
usage: {USAGE}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, and nothing imported of them."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "node_file", raising=False)
    return site


@pytest.fixture
def node_file(site: Path) -> None:
    write_package(site, GROUP, {"NodeFile": "NodeFile"}, EXAMPLE.read_text(), "node_file")


def text(usage: str, source: str = "NodeFile") -> SourceText:
    return SourceText(POLICY.replace("SOURCE", source).replace("{USAGE}", usage), "policy.yaml")


def problems(usage: str, source: str = "NodeFile") -> list[str]:
    return list(map(str, check_source(text(usage, source), plugin_registry()).errors))


async def measured(usage: str) -> Sequence[Any]:
    read = load_sources([text(usage)], plugin_registry())
    session: Any = None  # no request goes to the API server
    clock = SystemClock()
    async with open_sources(
        read.policy, read.controller.usage, session, clock, lambda _: ()
    ) as sources:
        [source] = sources
        assert read.controller.usage.of(source.name).interval_s in (15.0, 7.0)
        return list(await source.measure())


@pytest.mark.usefixtures("node_file")
async def test_a_policy_names_an_installed_source_and_is_answered_by_it(tmp_path: Path) -> None:
    file = tmp_path / "use.json"
    file.write_text(json.dumps({"n1": {"cpu": 1500, "memory": 7}}))
    usage = f"{{nodeFile: {{path: {file}, interval: 7s}}}}"

    assert problems(usage) == []
    [sample] = await measured(usage)
    assert (sample.source, sample.node, sample.usage) == (
        "NodeFile",
        "n1",
        {"cpu": 1500, "memory": 7},
    )
    assert sample.sampled_s == file.stat().st_mtime


@pytest.mark.usefixtures("node_file")
async def test_without_a_section_its_defaults_hold(golden: Golden) -> None:
    with pytest.raises(UsageUnavailable) as caught:
        await measured("{}")

    assert golden() in str(caught.value)


@pytest.mark.usefixtures("node_file")
@pytest.mark.parametrize(
    ("usage", "source", "where", "says"),
    [
        ("{nodeFile: {pth: a}}", "NodeFile", "usage.nodeFile.pth", "did you mean path?"),
        ("{nodeFile: {interval: 0s}}", "NodeFile", "usage.nodeFile.interval", "longer than 0s"),
        ("{nodFile: {}}", "NodeFile", "usage.nodFile", "did you mean nodeFile?"),
        ("{}", "NodFile", "metricsProviders[0].source", "did you mean NodeFile?"),
    ],
)
def test_what_is_wrong_about_it_is_named_as_of_ours(
    usage: str, source: str, where: str, says: str
) -> None:
    assert any(where in one and says in one for one in problems(usage, source))


def test_a_source_that_is_not_installed_is_none() -> None:
    assert any("is not a source of metrics" in one for one in problems("{}"))


def source_of(site: Path, code: str) -> InstalledSource:
    write_package(site, GROUP, {"NodeFile": "NodeFile"}, code, "node_file")
    host = UsageHost(name="NodeFile", wall=lambda: 0.0, pods_on=lambda _: ())
    return InstalledSource("NodeFile", usage_offers(), UsageSourceSettings(), host)


HEAD = """\
from reactive_desched.api import UsagePlugin, UsageSourceSettings
from reactive_desched.model.usage import NodeUsage


class NodeFile(UsagePlugin[UsageSourceSettings]):
    async def measure(self):
"""
BODIES: Mapping[str, str] = {
    "raises": "        raise RuntimeError('password=hunter2')",
    "ends the program": "        raise SystemExit(1)",
    "returns nothing": "        pass",
    "returns no samples": "        return [3]",
    "has no amounts": "        return [NodeUsage('x', 'n1', {'cpu': 1.5}, 0.0)]",
    "has no time": "        return [NodeUsage('x', 'n1', {}, float('nan'))]",
    "has amounts that raise": (
        "        class Use(dict):\n"
        "            def items(self):\n"
        "                raise SystemExit(1)\n"
        "        return [NodeUsage('x', 'n1', Use(cpu=1), 0.0)]"
    ),
    "has no node": "        return [NodeUsage('x', None, {}, 0.0)]",
}


@pytest.mark.parametrize(
    "code",
    [
        *(HEAD + body for body in BODIES.values()),
        "import nothing_there\n",
        "NodeFile = 3\n",
        HEAD.replace("async def measure", "async def ask") + "        pass",
    ],
    ids=[*BODIES, "does not import", "is no class", "does not measure"],
)
async def test_whatever_it_does_is_its_own_problem_and_names_the_package(
    site: Path, code: str, golden: Golden
) -> None:
    source = source_of(site, code)

    with pytest.raises(UsageUnavailable) as caught:
        await source.measure()
    await source.close()
    assert golden() in str(caught.value)
    assert "hunter2" not in str(caught.value)


HANGS: Final = "while True:\n            pass"


@pytest.mark.parametrize(
    "body",
    [
        f"        {HANGS}",
        f"        return []\n\n    def __init__(self, *_):\n        {HANGS}",
        f"        return []\n\n    async def close(self):\n        {HANGS}",
        "        await asyncio.sleep(0)\n        time.sleep(1000)",
    ],
    ids=["measure", "open", "close", "after it has waited"],
)
async def test_a_source_that_does_not_return_is_interrupted_and_named(
    site: Path, body: str
) -> None:
    source = source_of(site, f"import asyncio\nimport time\n{HEAD}{body}\n")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PluginWatchdog(limit_s=0.3, beat_s=0.05).run)
        await anyio.sleep(0.1)
        said = ""
        try:
            await source.measure()
            await source.close()
        except UsageUnavailable as error:
            said = str(error)
        assert re.search(r"PluginHung: .* of node_file\.py", said)
        tasks.cancel_scope.cancel()


async def test_samples_have_the_name_of_their_source(site: Path) -> None:
    source = source_of(
        site, f"{HEAD}        return [NodeUsage('KubernetesMetrics', 'n1', {{}}, 1.0)]"
    )

    [sample] = await source.measure()
    assert sample.source == "NodeFile"


def test_nothing_is_imported_to_name_the_sources(site: Path) -> None:
    write_package(site, GROUP, {"NodeFile": "NodeFile"}, "import nothing_there\n", "node_file")

    assert problems("{}") == []
    assert [*Offers(GROUP, "source")] == ["NodeFile"]
    assert "node_file" not in sys.modules
