from typing import Any

import pytest

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig:
  - {{name: DefaultEvictor, args: {args}}}
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
"""
STORAGE = (
    "{podProtections: {extraEnabled: [PodsWithPVC],"
    " config: {PodsWithPVC: {protectedStorageClasses: [{name: fast}]}}}}"
)


@pytest.mark.parametrize(
    ("args", "needed"),
    [
        pytest.param("{nodeFit: true}", None, id="nothing more"),
        pytest.param("{podProtections: {extraEnabled: [PodsWithPVC]}}", None, id="any claim"),
        pytest.param(
            "{namespaceLabelSelector: {matchLabels: {a: b}}}",
            {"kind": "Namespace"},
            id="labels of namespaces",
        ),
        pytest.param(
            "{podProtections: {extraEnabled: [PodsWithoutPDB]}}",
            {"kind": "PodDisruptionBudget"},
            id="disruption budgets",
        ),
        pytest.param(STORAGE, {"kind": "PersistentVolumeClaim"}, id="claims by storage class"),
    ],
)
def test_a_kind_the_policy_needs_and_nobody_gave_is_told(
    world: Any, args: str, needed: dict[str, str] | None
) -> None:
    policy = POLICY.format(args=args)
    told = world.look(policy=policy).warnings
    if needed is None:
        assert told == ()
        return

    assert [warning.partition(" given: ")[0] for warning in told] == [
        f'profile "one": no {needed["kind"].lower()}s'
    ]
    given = {**needed, "metadata": {"name": "it", "namespace": "shop"}}
    path = world.file(world.listed([*world.small(), given]))
    assert world.look(path, policy=policy).warnings == ()


def test_pods_on_nodes_that_were_not_given_are_told(world: Any) -> None:
    strays = [world.pod("d", on="n8"), world.pod("e", on="n7"), world.pod("f", on=None)]
    report = world.look(world.file(world.listed([*world.small(), *strays])))

    assert report.warnings == (
        "2 pods are on 2 nodes that are not there, for example n7; they are not looked at",
    )
    assert report.looked_at.whole
