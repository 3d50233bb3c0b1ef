from typing import Any

import pytest

from reactive_desched.sim.http.protobuf import MEDIA_TYPE, decode
from reactive_desched.sim.http.schema import readable_message
from reactive_desched.sim.resources import served
from reactive_desched.sim.status import StatusError


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def envelope(version: str, kind: str, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, message)


META = field(1, field(1, "web") + field(3, "default") + field(5, "") + field(8, b""))
CONTAINER = field(1, "c") + field(2, "app:1") + field(8, b"") + field(16, 0)
LABELS = field(1, field(11, field(1, "a") + field(2, "b")))


def test_a_deployment_reads_as_its_json() -> None:
    spec = (
        field(1, 0)
        + field(2, field(1, field(1, "a") + field(2, "b")))
        + field(3, LABELS + field(2, field(2, CONTAINER) + field(4, 30)))
        + field(4, field(2, field(1, field(1, 1) + field(2, 0) + field(3, "25%"))))
        + field(7, 0)
    )
    body = envelope("apps/v1", "Deployment", META + field(2, spec) + field(3, b""))

    assert decode(body) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            # A pointer to zero is a wish; a plain zero, like paused, is nothing.
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "app:1"}],
                    "terminationGracePeriodSeconds": 30,
                },
            },
            "strategy": {"rollingUpdate": {"maxUnavailable": "25%"}},
        },
    }


def test_a_revision_holds_any_json() -> None:
    data = field(1, '{"spec":{"template":{"a":1}}}')
    body = envelope("apps/v1", "ControllerRevision", META + field(2, data) + field(3, 7))

    assert decode(body) == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "web", "namespace": "default"},
        "data": {"spec": {"template": {"a": 1}}},
        "revision": 7,
    }


def test_delete_options_of_any_version() -> None:
    options = field(1, 0) + field(2, field(1, "u")) + field(4, "Background")
    assert decode(envelope("apps/v1", "DeleteOptions", options)) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Background",
    }


def test_a_lease_keeps_its_microseconds() -> None:
    moment = field(1, 1_800_000_000) + field(2, 250_000_000)
    spec = field(1, "me") + field(2, 15) + field(4, moment) + field(5, 0)
    lease = decode(envelope("coordination.k8s.io/v1", "Lease", field(2, spec)))
    assert lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2027-01-15T08:00:00.250000Z",
        "leaseTransitions": 0,
    }


def test_quantities_inlined_sources_and_negative_numbers() -> None:
    requests = field(2, field(1, "cpu") + field(2, field(1, "250m")))
    volume = field(1, "v") + field(2, field(2, b""))
    container = field(1, "c") + field(8, requests)
    spec = field(1, volume) + field(2, container) + field(25, -5)
    pod = decode(envelope("v1", "Pod", field(2, spec)))
    assert pod["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}],
        "priority": -5,
    }


def test_a_secret_carries_bytes_as_base64() -> None:
    secret = decode(envelope("v1", "Secret", field(2, field(1, "k") + field(2, b"\x00\xff"))))
    assert secret["data"] == {"k": "AP8="}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="not protobuf"),
        pytest.param(envelope("v1", "Widget", b""), id="an unknown kind"),
        pytest.param(envelope("v1", "Pod", b"\x0a\x20abc"), id="cut off"),
        pytest.param(envelope("v1", "Pod", b"\xff\xff"), id="a number without end"),
        pytest.param(envelope("v1", "Pod", b"\x0b"), id="a wire type nobody uses"),
        pytest.param(envelope("v1", "Pod", field(1, 5)), id="a number for a message"),
        pytest.param(envelope("v1", "Pod", field(1, field(1, b"\xff"))), id="text that is none"),
    ],
)
def test_what_cannot_be_read_is_400(body: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        decode(body)
    assert refused.value.code == 400


@pytest.mark.anyio
async def test_the_server_creates_from_protobuf_and_answers_in_json(api: Any) -> None:
    body = envelope("v1", "Namespace", field(1, field(1, "made")))
    headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE},application/json"}
    status, made = await api.ask("POST", "/api/v1/namespaces", None, data=body, headers=headers)
    assert (status, made["metadata"]["name"]) == (201, "made")


def test_every_served_kind_that_has_a_published_type_is_read() -> None:
    elsewhere = "koordinator.sh"  # its clients write JSON alone, as for every custom kind
    unread = {
        (each.api_version, each.kind)
        for each in served()
        if readable_message(each.api_version, each.kind) is None
        and not each.group.endswith(elsewhere)
    }

    assert unread == set()


@pytest.mark.anyio
async def test_what_a_typed_client_writes_is_stored(api: Any) -> None:
    meta = field(1, field(1, "web"))
    target = field(1, "Deployment") + field(2, "web") + field(3, "apps/v1")
    scaler = meta + field(2, field(1, target) + field(3, 4) + field(4, 80))
    device = field(1, "gpu-0") + field(2, field(1, "model") + field(2, field(4, "h200")))
    device += field(3, field(1, "memory") + field(2, field(1, field(1, "80Gi"))))
    pool = field(1, "n1") + field(2, 1) + field(3, 1)
    published = meta + field(
        2, field(1, "gpu.example") + field(2, pool) + field(3, "n1") + field(6, device)
    )
    scalers = "namespaces/default/horizontalpodautoscalers"
    for path, kind, body in (
        (f"autoscaling/v1/{scalers}", "HorizontalPodAutoscaler", scaler),
        ("resource.k8s.io/v1/resourceslices", "ResourceSlice", published),
    ):
        headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE},application/json"}
        data = envelope("/".join(path.split("/")[:2]), kind, body)
        status, _ = await api.ask("POST", f"/apis/{path}", None, data=data, headers=headers)
        assert status == 201

    seen = await api.get(f"/apis/autoscaling/v2/{scalers}/web")
    assert seen["spec"]["maxReplicas"] == 4
    assert seen["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    seen = await api.get("/apis/resource.k8s.io/v1/resourceslices/web")
    assert seen["spec"]["devices"] == [
        {
            "name": "gpu-0",
            "attributes": {"model": {"string": "h200"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
    ]


def test_a_definition_of_a_kind_reads_as_its_json() -> None:
    text = field(5, "string")

    def named(name: str, schema: bytes) -> bytes:
        return field(29, field(1, name) + field(2, schema))

    root = (
        field(5, "object")
        + named("alike", field(24, field(1, text)))
        + named("each", field(24, field(2, text) + field(2, text)))
        + named("open", field(30, field(1, 1)))
        + named("closed", field(30, field(1, 0)))
        + named("typed", field(30, field(1, 1) + field(2, text)))
        + named("sort", text + field(8, field(1, '"rose"')) + field(20, field(1, '"rose"')))
        + named("free", field(38, 1) + field(13, 0))
        + field(32, field(1, "a") + field(2, field(2, "b") + field(2, "c")))
        + field(44, field(1, "self.a"))
    )
    version = (
        field(1, "v1")
        + field(2, 1)
        + field(3, 0)
        + field(4, field(1, root))
        + field(5, field(1, b"") + field(2, field(1, ".spec.size")))
    )
    spec = (
        field(1, "example.com")
        + field(3, field(1, "gardens") + field(4, "Garden"))
        + field(4, "Namespaced")
        + field(7, version)
    )
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    found = decode(envelope(*kind, field(1, field(1, "gardens.example.com")) + field(2, spec)))

    assert found["spec"]["names"] == {"plural": "gardens", "kind": "Garden"}
    (read,) = found["spec"]["versions"]
    assert (read["served"], read["storage"]) == (True, False)
    assert read["subresources"] == {"status": {}, "scale": {"specReplicasPath": ".spec.size"}}
    string = {"type": "string"}
    assert read["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "alike": {"items": string},
            "each": {"items": [string, string]},
            "open": {"additionalProperties": True},
            "closed": {"additionalProperties": False},
            "typed": {"additionalProperties": string},
            "sort": {**string, "default": "rose", "enum": ["rose"]},
            "free": {"x-kubernetes-preserve-unknown-fields": True, "maxLength": 0},
        },
        "dependencies": {"a": ["b", "c"]},
        "x-kubernetes-validations": [{"rule": "self.a"}],
    }


def test_a_schema_that_is_no_json_is_refused() -> None:
    schema = field(8, field(1, "{"))
    spec = field(7, field(4, field(1, schema)))
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    with pytest.raises(StatusError, match="is not JSON"):
        decode(envelope(*kind, field(2, spec)))
