import pytest

from reactive_desched.model.moves import awaits_replacement, is_clean_up, was_clean_up
from reactive_desched.model.objects import OwnerReference
from reactive_desched.testing.builders import pod, pod_status


@pytest.mark.parametrize(
    ("phase", "kind", "clears_away"),
    [
        pytest.param("Failed", "ReplicaSet", True, id="replaced when it failed"),
        pytest.param("Succeeded", "Job", True, id="done"),
        pytest.param("Failed", "", True, id="a bare pod"),
        pytest.param("Failed", "StatefulSet", False, id="another comes when it is gone"),
        pytest.param("Failed", "DaemonSet", False, id="another of its node comes then, too"),
        pytest.param("Running", "ReplicaSet", False, id="it runs"),
        pytest.param("Running", "", False, id="a bare pod that runs"),
        pytest.param("Pending", "Job", False, id="it may run"),
        pytest.param("Unknown", "ReplicaSet", False, id="nobody knows"),
    ],
)
def test_a_clean_up_takes_no_work_and_brings_no_pod_and_its_record_says_so(
    phase: str, kind: str, *, clears_away: bool
) -> None:
    made = pod("web", on="n1", owner=f"{kind}/web" if kind else None, status=pod_status(phase))
    owners = (OwnerReference(kind, "web", "u1", controller=True),) if kind else ()

    assert is_clean_up(made) is clears_away
    assert was_clean_up(phase, owners) is clears_away
    assert not (clears_away and awaits_replacement(made))
