"""What koordinator's labels and annotations say of a pod."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.koordinator import (
    PRIORITY_CLASS_LABEL,
    QOS_CLASS_LABEL,
    eviction_order,
    is_prod,
    priority_class,
    qos_class,
)
from reactive_desched.model.objects import BEST_EFFORT, BURSTABLE, Annotations, Pod, PodStatus
from reactive_desched.testing.builders import pod


def make(priority: int | None = None, kube_qos: str = BURSTABLE, **labels: str) -> Pod:
    named = {"cls": PRIORITY_CLASS_LABEL, "qos": QOS_CLASS_LABEL}
    written = {named[key]: value for key, value in labels.items()}
    return pod(
        "p", priority=priority, labels=written, status=PodStatus("Running", qos_class=kube_qos)
    )


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(make(cls="koord-mid"), "koord-mid", id="its label"),
        pytest.param(
            make(5500, cls="koord-prod"), "koord-prod", id="the label before the priority"
        ),
        pytest.param(make(9999), "koord-prod", id="its priority"),
        pytest.param(make(7000), "koord-mid", id="the lowest of a class"),
        pytest.param(make(3999), "koord-free", id="the highest of a class"),
        pytest.param(make(8000), "koord-prod", id="a priority of no class: by QoS"),
        pytest.param(make(5500, cls="mine"), "koord-prod", id="an unknown label: by QoS"),
        pytest.param(make(kube_qos=BEST_EFFORT), "koord-batch", id="best effort"),
        pytest.param(make(qos="BE"), "koord-batch", id="koordinator's QoS before Kubernetes'"),
        pytest.param(make(qos="SYSTEM"), "koord-prod", id="system"),
    ],
)
def test_the_priority_class_is_by_label_then_priority_then_qos(of: Pod, expected: str) -> None:
    assert priority_class(of) == expected
    assert is_prod(of) == (expected == "koord-prod")


def test_an_unknown_qos_label_leaves_it_to_kubernetes() -> None:
    assert qos_class(make(qos="gold")) == "LS"


def test_pods_leave_by_class_priority_qos_and_costs() -> None:
    def cost(**written: Any) -> Pod:  # the value of any field
        return replace(make(9000), annotations=Annotations(**written))

    in_order = [
        make(3000),
        make(5999),
        make(7000),
        make(9000, BEST_EFFORT),
        cost(deletion_cost="-5"),
        cost(eviction_cost="-1"),
        make(9000),
        cost(eviction_cost="7"),
        cost(deletion_cost="1"),
        make(9000, qos="LSR"),
        make(9000, qos="LSE"),
        make(9000, "Guaranteed"),
        make(9001),
    ]
    shuffled = [*in_order[1::2], *in_order[::2]]
    assert sorted(shuffled, key=eviction_order) == in_order


@pytest.mark.parametrize("written", ["+5", "05", "5.0", "", "x", "2147483648", "-", "٣"])
def test_a_cost_that_the_api_server_would_refuse_counts_as_none(written: str) -> None:
    costly = replace(make(), annotations=Annotations(deletion_cost=written))

    assert eviction_order(costly) == eviction_order(make())
