"""The rows are what a real server of version 1.36 prints for the same objects."""

from typing import Any

import pytest

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.tables import columns, row_cells
from reactive_desched.sim.views import View

BORN = "2026-01-01T00:00:00Z"
NOW = parse_time(BORN) + 90
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "b"}, {"name": "c", "image": "d"}]}}


def printed(resource: str, **fields: Any) -> dict[str, object]:
    """Return an object's row under its headings, without its name and age."""
    kind = RESOURCES[resource]
    meta = {"name": "x", "creationTimestamp": BORN, **fields.pop("metadata", {})}
    cells = row_cells(View(kind), {"metadata": meta, **fields}, NOW)
    row = dict(zip([c["name"] for c in columns(View(kind))], cells, strict=True))
    assert row.pop("Name").startswith("x")
    assert row.pop("Age") == "90s"
    return row


@pytest.mark.parametrize("resource", sorted(RESOURCES))
def test_a_row_of_an_almost_empty_object_fills_every_column(resource: str) -> None:
    kind = RESOURCES[resource]
    obj = {"metadata": {"name": "x", "creationTimestamp": BORN}}
    assert len(row_cells(View(kind), obj, NOW)) == len(columns(View(kind)))


def test_a_claim_shows_its_volume_once_it_has_one() -> None:
    spec = {"storageClassName": "s", "volumeMode": "Filesystem"}
    status = {
        "phase": "Bound",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
    }
    pending = {
        "Status": "Pending",
        "Volume": "",
        "Capacity": "",
        "Access Modes": "",
        "StorageClass": "s",
        "VolumeAttributesClass": "<unset>",
        "VolumeMode": "Filesystem",
    }
    assert printed("persistentvolumeclaims", spec=spec, status={"phase": "Pending"}) == pending
    bound = {"Status": "Bound", "Volume": "pv1", "Capacity": "1Gi", "Access Modes": "RWO,RWX"}
    row = printed("persistentvolumeclaims", spec={**spec, "volumeName": "pv1"}, status=status)
    assert row == pending | bound


def test_a_volume_shows_whose_it_is() -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "lab", "name": "c"},
    }
    row = printed("persistentvolumes", spec=spec, status={"phase": "Bound"})
    assert (row["Capacity"], row["Access Modes"], row["Claim"]) == ("1Gi", "RWO,ROX", "lab/c")
    ending = {"deletionTimestamp": BORN}
    row = printed("persistentvolumes", metadata=ending, spec=spec, status={"phase": "Bound"})
    assert row["Status"] == "Terminating"


def test_the_default_storage_class_says_so() -> None:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    obj = {"metadata": {"name": "s", "creationTimestamp": BORN, "annotations": notes}}
    assert row_cells(View(RESOURCES["storageclasses"]), obj, NOW)[0] == "s (default)"


@pytest.mark.parametrize(
    ("spec", "external", "ports"),
    [
        pytest.param(
            {"ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}]},
            "<none>",
            "80/TCP,81/UDP",
            id="inside",
        ),
        pytest.param(
            {
                "type": "NodePort",
                "ports": [{"port": 80, "nodePort": 30080}],
                "externalIPs": ["1.2.3.4"],
            },
            "1.2.3.4",
            "80:30080/TCP",
            id="on nodes",
        ),
        pytest.param(
            {"type": "ExternalName", "externalName": "a.example"},
            "a.example",
            "<none>",
            id="elsewhere",
        ),
        pytest.param(
            {"type": "LoadBalancer", "ports": [{"port": 1}]}, "<pending>", "1/TCP", id="balanced"
        ),
    ],
)
def test_a_service_shows_where_it_is_reached(spec: Any, external: str, ports: str) -> None:
    row = printed("services", spec=spec)
    assert (row["External-IP"], row["Port(s)"]) == (external, ports)


def test_endpoints_are_cut_after_three() -> None:
    ports = [{"port": 80}, {"port": 81}]
    subset = {"addresses": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}], "ports": ports}
    assert printed("endpoints", subsets=[subset]) == {
        "Endpoints": "1.2.3.4:80,1.2.3.5:80,1.2.3.4:81 + 1 more..."
    }
    assert printed("endpoints") == {"Endpoints": "<none>"}
    assert printed("endpointslices", addressType="IPv4", ports=ports) == {
        "AddressType": "IPv4",
        "Ports": "80,81",
        "Endpoints": "<unset>",
    }


def test_what_is_in_a_config_map_and_a_secret_is_counted() -> None:
    assert printed("configmaps", data={"a": "b"}, binaryData={"c": "aGk="}) == {"Data": 2}
    assert printed("secrets", type="Opaque", data={"a": "b"}) == {"Type": "Opaque", "Data": 1}


def test_a_quota_shows_requests_and_limits_apart() -> None:
    hard = {"requests.cpu": "90", "pods": "100", "limits.memory": "10Ti"}
    assert printed("resourcequotas", spec={"hard": hard}, status={"used": {"pods": "3"}}) == {
        "Request": "pods: 3/100, requests.cpu: 0/90",
        "Limit": "limits.memory: 0/10Ti",
    }


def test_an_autoscaler_shows_two_of_its_targets() -> None:
    def of(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, kind.lower(): fields}

    metrics = [
        of("Resource", name="memory", target={"averageValue": "50Mi"}),
        of("Pods", metric={"name": "q"}, target={"averageValue": "5"}),
        of("Resource", name="cpu", target={"averageUtilization": 50}),
    ]
    target = {"kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    assert printed("horizontalpodautoscalers", spec=spec) == {
        "Reference": "Deployment/d",
        "Targets": "memory: <unknown>/50Mi, <unknown>/5 + 1 more...",
        "MinPods": "1",
        "MaxPods": 3,
        "Replicas": 0,
    }


@pytest.mark.parametrize(
    ("kind", "source", "current", "shown"),
    [
        (
            "External",
            {"target": {"averageValue": "10"}},
            {"averageValue": "7500m"},
            "7500m/10 (avg)",
        ),
        ("External", {"target": {"value": "10"}}, {"value": "75"}, "75/10"),
        ("Object", {"target": {"averageValue": "10"}}, {}, "<unknown>/10 (avg)"),
        ("Pods", {"target": {"averageValue": "10"}}, {"averageValue": "9"}, "9/10"),
        ("Resource", {"name": "cpu", "target": {}}, {}, "cpu: <unknown>/<auto>"),
        (
            "ContainerResource",
            {"name": "cpu", "target": {"averageUtilization": 60}},
            {"averageUtilization": 90},
            "cpu: 90%/60%",
        ),
    ],
)
def test_an_autoscaler_shows_what_it_measured(
    kind: str, source: dict[str, Any], current: dict[str, str], shown: str
) -> None:
    field = kind[0].lower() + kind[1:]
    spec = {"maxReplicas": 3, "metrics": [{"type": kind, field: source}]}
    status = {"currentMetrics": [{"type": kind, field: {"current": current}}]}
    row = printed("horizontalpodautoscalers", spec=spec, status=status)
    assert row["Targets"] == shown


def test_a_cron_job_shows_its_schedule_and_what_runs() -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    status = {"active": [{}], "lastScheduleTime": BORN}
    assert printed("cronjobs", spec=spec, status=status) == {
        "Schedule": "* * * * *",
        "Timezone": "<none>",
        "Suspend": "False",
        "Active": 1,
        "Last Schedule": "90s",
        "Containers": "a,c",
        "Images": "b,d",
        "Selector": "<none>",
    }


@pytest.mark.parametrize(
    ("spec", "status", "completions", "duration"),
    [
        pytest.param({"completions": 2, "parallelism": 3}, {}, "0/2", "", id="not begun"),
        pytest.param({"parallelism": 3}, {"startTime": BORN}, "0/1 of 3", "90s", id="a queue"),
        pytest.param(
            {"completions": 1},
            {"succeeded": 1, "startTime": BORN, "completionTime": "2026-01-01T00:00:11Z"},
            "1/1",
            "11s",
            id="done",
        ),
    ],
)
def test_a_job_shows_how_far_it_is(spec: Any, status: Any, completions: str, duration: str) -> None:
    row = printed("jobs", spec=spec, status=status)
    assert (row["Completions"], row["Duration"]) == (completions, duration)


def test_a_node_shows_its_kernel_with_the_architecture() -> None:
    info = {"kernelVersion": "6.12.0", "architecture": "arm64"}
    assert printed("nodes", status={"nodeInfo": info})["Kernel-Version"] == "6.12.0 (arm64)"


def test_a_kind_without_a_table_shows_when_it_was_made() -> None:
    kind = RESOURCES["limitranges"]
    (name, made) = columns(View(kind))
    assert (name["format"], made["name"], made["type"]) == ("name", "Created At", "date")
    obj = {"metadata": {"name": "x", "creationTimestamp": BORN}}
    assert row_cells(View(kind), obj, NOW) == ["x", BORN]
