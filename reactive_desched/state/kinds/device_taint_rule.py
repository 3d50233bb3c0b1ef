"""DeviceTaintRules: the taints that administrators add to devices of others' slices."""

from typing import Final

from reactive_desched.model.devices import DeviceTaintRule
from reactive_desched.model.taints import Taint
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, Purpose, Timestamp, WatchedKind, WireStruct

__all__ = ["DEVICE_TAINT_RULE"]


class WireRuleTaint(WireStruct, frozen=True, gc=False):
    """The taint of a rule."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class WireDeviceSelector(WireStruct, frozen=True, gc=False):
    """The names of devices; one that is left out is any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpec(WireStruct, frozen=True, gc=False):
    """A DeviceTaintRule's spec."""

    taint: WireRuleTaint = WireRuleTaint()
    device_selector: WireDeviceSelector | None = None


class WireDeviceTaintRule(WireStruct, frozen=True, gc=False):
    """A DeviceTaintRule's JSON."""

    metadata: Metadata
    spec: RuleSpec = RuleSpec()


def _read(wire: WireDeviceTaintRule) -> DeviceTaintRule:
    """Read a rule; one without a selector is about all devices, as the kube-scheduler has it."""
    metadata, taint = wire.metadata, wire.spec.taint
    selected = wire.spec.device_selector or WireDeviceSelector()
    return DeviceTaintRule(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        taint=Taint(taint.key, taint.effect, taint.value),
        driver=selected.driver or "",
        pool=selected.pool or "",
        device=selected.device or "",
        since_s=None if taint.time_added is None else int(taint.time_added.timestamp()),
    )


DEVICE_TAINT_RULE: Final = WatchedKind(
    kind="DeviceTaintRule",
    resource="devicetaintrules",
    api_version="resource.k8s.io/v1beta2",
    namespaced=False,
    record=DeviceTaintRule,
    wire=WireDeviceTaintRule,
    make_reader=lambda _: _read,
    purpose=Purpose.DEVICES,
    read_for="the taints that rules add to devices; watched only with `guards.resourceClaims: fit`",
    if_forbidden="devices count as free that rules close, where the API server has such rules",
)
