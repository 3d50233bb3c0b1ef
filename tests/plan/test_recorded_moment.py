"""The configuration of a recorded moment is the one that decided then."""

from reactive_desched.plan.recorded_moment import read_configuration
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.items import NO_TIME, ConfigurationInForce

POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=all
profiles:
- name: default
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""


def test_the_node_selector_of_the_command_line_counts_in_place_of_the_recorded_policys() -> None:
    of_policy, of_flag = (
        read_configuration(ConfigurationInForce(NO_TIME, POLICY, flags=flags), plugin_registry())
        for flags in ({}, {"nodeSelector": "pool=burst"})
    )

    assert str(of_policy.policy.node_selector) == "pool in (all)"
    assert str(of_flag.policy.node_selector) == "pool in (burst)"
