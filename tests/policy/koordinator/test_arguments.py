"""No argument of koordinator's is read in silence: it changes what a file comes to, or is named.

Each field is given another value than its default. Where neither the converted file nor a message
tells it from the file without, it would be lost on the way.
"""

import json
from collections.abc import Mapping
from typing import Final

import pytest
from pydantic import BaseModel

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.koordinator.document import (
    KoordinatorClientConnection,
    KoordinatorConfiguration,
)
from reactive_desched.policy.koordinator.migration_controller import (
    ArbitrationArgs,
    KoordinatorsDeleteOptions,
    MigratedPriorityThreshold,
    MigrationControllerArgs,
    ObjectLimiter,
)
from reactive_desched.policy.load import check_source
from reactive_desched.policy.yaml.decode import fields_by_key
from tests.support.golden import Golden

Fields = Mapping[str, object]

ARGUMENTS: Final[Fields] = {
    "dryRun": True,
    "maxConcurrentReconciles": 2,
    "evictFailedBarePods": True,
    "evictAllBarePods": True,
    "evictLocalStoragePods": True,
    "evictSystemCriticalPods": True,
    "ignorePvcPods": True,
    "priorityThreshold": {"value": 7},
    "labelSelector": {"matchLabels": {"app": "web"}},
    "namespaces": {"exclude": ["kube-system"]},
    "nodeFit": True,
    "nodeSelector": "pool=a",
    "skipEvictionGates": ["PVC"],
    "maxMigratingGlobally": 3,
    "maxMigratingPerNode": 3,
    "maxMigratingPerNamespace": 3,
    "maxMigratingPerWorkload": 3,
    "maxUnavailablePerWorkload": 3,
    "skipCheckExpectedReplicas": True,
    "objectLimiters": {"workload": {"duration": "1m"}},
    "defaultJobMode": "EvictDirectly",
    "defaultJobTTL": "7m",
    "schedulerNames": ["mine"],
    "evictQPS": "0.1",
    "evictBurst": 3,
    "evictionPolicy": "Delete",
    "defaultDeleteOptions": {"gracePeriodSeconds": 7},
    "arbitrationArgs": {"interval": "1s"},
}
DELETE_OPTIONS: Final[Fields] = {
    "gracePeriodSeconds": 7,
    "preconditions": {"resourceVersion": "1"},
    "orphanDependents": True,
    "propagationPolicy": "Orphan",
    "dryRun": ["All"],
    "ignoreStoreReadErrorWithClusterBreakingPotential": True,
}
OF_WORKLOADS: Final[Fields] = {"duration": "1m", "maxMigrating": 3, "burst": 3}
TOP: Final[Fields] = {
    "leaderElection": {"leaderElect": True},
    "clientConnection": {"qps": 5},
    "enableProfiling": True,
    "enableContentionProfiling": True,
    "healthzBindAddress": "0.0.0.0:1",
    "metricsBindAddress": "0.0.0.0:1",
    "deschedulingInterval": None,
    "dryRun": True,
    "profiles": None,
    "nodeSelector": {"matchLabels": {"pool": "a"}},
    "maxNoOfPodsToEvictPerNode": 3,
    "maxNoOfPodsToEvictPerNamespace": 3,
    "maxNoOfPodsToEvictTotal": 3,
}
CLIENT: Final[Fields] = {
    "kubeconfig": "there",
    "acceptContentTypes": "application/json",
    "contentType": "application/json",
    "qps": 5,
    "burst": 5,
}
COVERED: Final[Mapping[type[BaseModel], Fields]] = {
    MigrationControllerArgs: ARGUMENTS,
    KoordinatorsDeleteOptions: DELETE_OPTIONS,
    ObjectLimiter: OF_WORKLOADS,
    MigratedPriorityThreshold: {"value": 7, "name": "system-node-critical"},
    ArbitrationArgs: {"enabled": False, "interval": "1s"},
    KoordinatorConfiguration: TOP,
    KoordinatorClientConnection: CLIENT,
}
IDENTITY: Final = {"apiVersion", "kind"}


def comes_to(args: Fields, top: Fields) -> tuple[bytes | str, frozenset[str]]:
    """Return the converted file, and what is said of the original."""
    profile = {
        "name": "p",
        "plugins": {"deschedule": {"enabled": [{"name": "RemovePodsViolatingNodeTaints"}]}},
        "pluginConfig": [{"name": "MigrationController", "args": args}],
    }
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerConfiguration",
        "deschedulingInterval": "60s",
        "profiles": [profile],
        **top,
    }
    source = SourceText(json.dumps(document).encode(), "k.json")
    checked = check_source(source, plugin_registry())
    said = frozenset(each.message for each in (*checked.errors, *checked.warnings))
    if "dryRun" in str(args.get("defaultDeleteOptions", "")):  # an error: nothing is converted
        return "", said
    return convert_policy(source, plugin_registry(), ConvertOptions()).text, said


CHANGES: Final[list[tuple[Fields, Fields]]] = [
    *(({name: value}, {}) for name, value in ARGUMENTS.items()),
    *(({"defaultDeleteOptions": {name: value}}, {}) for name, value in DELETE_OPTIONS.items()),
    *(
        ({"objectLimiters": {"workload": {"duration": "5m", name: value}}}, {})
        for name, value in OF_WORKLOADS.items()
    ),
    ({"objectLimiters": {"namespace": {"duration": "5m", "maxMigrating": 3}}}, {}),
    ({"objectLimiters": {"node": {"duration": "5m", "maxMigrating": 3}}}, {}),
    ({"priorityThreshold": {"name": "system-node-critical"}}, {}),
    ({"arbitrationArgs": {"enabled": False}}, {}),
    *(({}, {name: value}) for name, value in TOP.items() if name != "profiles"),
    *(({}, {"clientConnection": {name: value}}) for name, value in CLIENT.items()),
]


@pytest.mark.parametrize(("args", "top"), CHANGES, ids=str)
def test_an_argument_changes_what_a_file_comes_to_or_is_named(args: Fields, top: Fields) -> None:
    assert comes_to(args, top) != comes_to({}, {})


@pytest.mark.parametrize("model", COVERED, ids=lambda model: model.__name__)
def test_every_field_is_among_them(model: type[BaseModel]) -> None:
    assert set(fields_by_key(model)) - IDENTITY == set(COVERED[model])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"nodeSelector": "pool=a"}, "has no effect"),
        ({"nodeSelector": "pool=a", "nodeFit": True}, ""),
        ({"priorityThreshold": {"value": 7, "name": "mine"}}, "has no effect"),
        ({"objectLimiters": {"namespace": {"duration": "5m"}}}, "limits nothing"),
        (
            {"objectLimiters": {"namespace": {"duration": "5m", "maxMigrating": "9%"}}},
            "limits nothing",
        ),
        ({"objectLimiters": {"namespace": {"duration": "0s"}}}, ""),
        ({"evictBurst": 3, "evictQPS": "0.1"}, ""),
        ({"evictQPS": 0.00001}, "is less than migration.evictQPS takes"),
        ({"evictBurst": 2_000_000}, "is more than migration.evictBurst takes"),
        ({"maxConcurrentReconciles": 100}, ""),
        (
            {"maxConcurrentReconciles": 101},
            "is more than migration.maxConcurrentReconciles takes",
        ),
    ],
)
def test_what_has_no_effect_is_said(args: Fields, said: str) -> None:
    _, without = comes_to({}, {})

    assert comes_to(args, {})[1] - without == ({said} if said else set())


def test_the_budgets_that_hold_beside_a_rate_are_said(golden: Golden) -> None:
    _, without = comes_to({}, {})

    assert comes_to({"evictQPS": 10}, {})[1] - without == {golden()}
