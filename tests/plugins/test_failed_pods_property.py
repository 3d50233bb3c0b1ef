"""Whatever happens to failed pods, reacting finds what a full scan finds."""

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.testing.aging import NOW
from reactive_desched.testing.builders import READY, container, pod_status
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.random_steps import TWICE_AS_MANY, Step, random_steps, run_steps

BROKEN = pod_status("Failed", container(ended="Error", code=1))
CREATED = {"p1": NOW - 9, "p2": NOW - 6, "p3": NOW, "p4": NOW + 3}  # and that never changes
PODS = {
    name: {"on": "n1", "status": BROKEN if at < NOW - 6 else READY, "created": at}
    for name, at in CREATED.items()
}
statuses = st.builds(
    pod_status,
    st.sampled_from(["Failed", "Failed", "Failed", "Running", "Succeeded"]),
    st.builds(
        lambda ended, code: container(ended=ended, code=code),
        st.sampled_from(["", "Error"]),
        st.sampled_from([None, 0, 1]),
    ),
    reason=st.sampled_from(["", "Evicted"]),
)
steps = random_steps(
    PODS,
    {
        "on": st.sampled_from([None, "n1", "n2"]),
        "status": statuses,
        "owner": st.sampled_from(["ReplicaSet/r", "Job/j"]),
        "labels": st.sampled_from([{}, {"tier": "front"}]),
    },
    waits_s=(1, 4, 10, 10),
)
arguments = st.sampled_from(
    [
        {},
        {"reasons": ["Error"]},
        {"exitCodes": [1]},
        {"excludeOwnerKinds": ["Job"]},
        {"labelSelector": {"matchLabels": {"tier": "front"}}},
        {"minPodLifetimeSeconds": 0, "reasons": ["Evicted"]},
    ]
)


@TWICE_AS_MANY
@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[Step], args: dict[str, object]
) -> None:
    plugin = plugin_from_policy(
        FailedPodsPlugin, FailedPodsArgs, **{"minPodLifetimeSeconds": 10, **args}
    )
    for cluster in run_steps(steps, plugin, PODS, now_s=NOW):
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
