"""What a measurement is aimed at, and the files through which the real application reads it."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.load import load_files
from reactive_desched.policy.settings.guards import GuardName

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: bench
clusters: [{{name: bench, cluster: {{server: "{url}", certificate-authority: "{ca}"}}}}]
users: [{{name: bench, user: {{token: none}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
"""
_NO_DEBOUNCE = {"quiet": "0s", "maxWait": "0s"}
_SCOPES = ("cluster", "zone", "node", "namespace", "owner", "plugin", "ended")
_UNLIMITED = {**dict.fromkeys(_SCOPES), "warmUp": None}
_NO_STORM = {"storm": {"pods": 10**6}}
_UNHINDERED = {
    "maxMoving": dict.fromkeys(("owner", "namespace", "node", "zone", "cluster")),
    "cooldown": "0s",
    "nodeCooldown": "0s",
    "futileBackoff": "0s",
}
"""A bound pod looks like the replacement of one that was evicted before."""
_UNTHROTTLED = {"requestsPerSecond": 10_000, "burst": 100_000}
_ARGS = {
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 2**31},
    "RemovePodsViolatingNodeConditions": {"conditions": [{"type": "KernelDeadlock"}]},
}
"""Arguments for plugins that need some; chosen so that a healthy cluster stays as it is."""


@dataclass(frozen=True)
class Target:
    """Where the load server is and how many pods it has, folders, and what to look at closely."""

    url: str
    ca: str
    pods: int
    folder: Path
    journal: Path
    holds: bool = False
    recorded: bool = False
    profile: str = ""

    def kubeconfig(self) -> str:
        """Write a kubeconfig for the load server and return its name."""
        file = self.folder / "kubeconfig"
        file.write_text(_KUBECONFIG.format(url=self.url, ca=self.ca), encoding="utf-8")
        return str(file)

    def configuration(self) -> Configuration:
        """Return a policy with every plugin of single pods, and settings that hold nothing back.

        The balance plugins are left out, since they would move some of what the scripts bind; the
        part `balance` has them all.
        """
        files = {"policy.yaml": bench_policy(), "settings.yaml": _settings(recorded=self.recorded)}
        for name, document in files.items():
            (self.folder / name).write_text(json.dumps(document), encoding="utf-8")
        return load_files([self.folder / name for name in files], plugin_registry())


def bench_policy(without: Collection[str] = ()) -> dict[str, object]:
    """Return a policy with every plugin of single pods, but for some of these names."""
    points: dict[str, dict[str, list[str]]] = {}
    registry = plugin_registry()
    names = [
        name
        for name, spec in registry.items()
        if "balance" not in spec.points and name not in without
    ]
    for name in names:
        for point in registry[name].points:
            points.setdefault(point, {"enabled": []})["enabled"].append(name)
    configured = [{"name": name, "args": _ARGS[name]} for name in names if name in _ARGS]
    profile = {"name": "bench", "pluginConfig": configured, "plugins": points}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [profile],
    }


def _settings(*, recorded: bool) -> dict[str, object]:
    return {
        "apiVersion": "reactive-desched/v1alpha1",
        "kind": "ReactiveSettings",
        "debounce": _NO_DEBOUNCE,
        "budgets": _UNLIMITED,
        "guards": {"disabled": [str(guard) for guard in GuardName]},
        "brakes": _NO_STORM,
        "moves": _UNHINDERED,
        "client": _UNTHROTTLED,
        "recording": {"enabled": recorded, "maxBytes": 2**30},
    }
