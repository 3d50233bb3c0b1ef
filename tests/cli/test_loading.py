"""A command loads what it needs and no more: most of the time of a start is that of its modules."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true}}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""

CLUSTER = (
    "aiohttp anyio kubernetes_asyncio app.run controller.controller controller.pipeline election "
    "eviction journal kube.auth kube.watch moves brakes sinks web"
)
"""What a command that reads files and ends has no use for."""

SETTINGS = (
    "policy.settings.reactive_settings policy.settings.recording policy.settings.brakes "
    "policy.settings.moves policy.settings.debounce"
)
"""Models of the settings: forty classes, a tenth of the start of `policy check`."""

PLUGINS = (
    "plugins.duplicates plugins.low_node_load plugins.low_node_utilization plugins.pod_life_time "
    "plugins.topology_spread"
)
"""Some of those that the policy above does not name."""

_LOADED = """\
import json, sys
{0}
from pydantic import BaseModel

def models(base):
    for each in base.__subclasses__():
        yield each.__name__, each.__pydantic_complete__
        yield from models(each)

built = sorted(name for name, complete in models(BaseModel) if complete)
print(json.dumps({{"modules": list(sys.modules), "built": built}}))
"""


def loaded_by(code: str) -> dict[str, Any]:
    """Run code in a new interpreter: its modules, and the models whose validators were built."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(code)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def unneeded(found: dict[str, Any], *names: str) -> set[str]:
    """The modules and packages of these that were loaded."""
    modules = {module.removeprefix("reactive_desched.") for module in found["modules"]}
    return {
        name
        for name in " ".join(names).split()
        if any(module == name or module.startswith(f"{name}.") for module in modules)
    }


def call(*argv: str) -> str:
    """The code of a whole command."""
    given = f"sys.argv[1:] = {list(argv)!r}"
    return f"from reactive_desched.__main__ import main; {given}; assert main() == 0"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return str(path)


def test_policy_check_loads_neither_the_cluster_state_nor_settings_that_no_file_has(
    policy: str,
) -> None:
    found = loaded_by(call("policy", "check", policy))

    # What a plugin asks, state.indexes, is loaded with it; who answers is not.
    others = "fit gate kube plan state.cluster state.kinds state.nodes sweep usage"
    assert not unneeded(found, CLUSTER, SETTINGS, PLUGINS, others)
    assert "EvictionRateLimits" not in found["built"]  # its defaults are shown unvalidated


@pytest.fixture
def objects(tmp_path: Path) -> str:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "default", "name": "p"}}
    path = tmp_path / "objects.json"
    path.write_text("\n".join(map(json.dumps, (node, pod))), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("mode", ["once", "upstream"])
def test_plan_of_a_sweep_over_a_file_loads_no_settings_no_limits_and_nothing_that_talks(
    policy: str, objects: str, mode: str
) -> None:
    found = loaded_by(call("plan", "--policy", policy, "-f", objects, "--as", mode))

    evicting = "eviction.executor eviction.recorder eviction.recovery"
    others = CLUSTER.replace("eviction ", "")
    assert "eviction" not in others.split()
    assert not unneeded(
        found,
        others,
        evicting,
        SETTINGS,
        PLUGINS,
        "policy.settings.limits gate.rate_limits",
    )


def test_plan_of_the_controller_over_a_file_loads_nothing_that_talks_or_writes(
    policy: str, objects: str
) -> None:
    found = loaded_by(call("plan", "--policy", policy, "-f", objects))

    others = "aiohttp kubernetes_asyncio api.event app election.elector journal kube.auth"
    assert not unneeded(found, others, "kube.watch sinks web sim demo rich structlog", PLUGINS)
    assert not unneeded(
        found, "policy.settings.reactive_settings policy.settings.recording policy.settings.server"
    )
    assert not unneeded(found, "anyio asyncio")  # no event loop, and nothing that waits in one
    assert not unneeded(found, "eviction.executor eviction.recovery migration")
    assert not unneeded(found, "plan.node_tables plan.node_text plan.unaffected_pods")
    assert not unneeded(found, "http.client ssl")  # those of a command that asks a controller
    assert not [name for name in found["built"] if name.endswith("Settings")]


def test_run_loads_only_what_every_controller_has(policy: str) -> None:
    found = loaded_by(
        "import reactive_desched.app.run; from reactive_desched.telemetry import logs; "
        "logs.configure('info', 'console', sys.stderr)"
    )

    others = "demo plan sim sweep election.elector sinks.kafka sinks.webhook primitives.cron"
    assert not unneeded(found, "migration app.migration")
    assert not unneeded(found, others, PLUGINS, "audit.lookup audit.export")
    assert not [name for name in found["built"] if name.endswith(("Settings", "Args"))]
