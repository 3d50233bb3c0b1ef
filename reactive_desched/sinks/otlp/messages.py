"""Makes the parts that the messages of every signal of OpenTelemetry have in common."""

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reactive_desched._version import __version__
from reactive_desched.policy.settings.otlp import OtlpEndpoint

SCOPE: Final = InstrumentationScope(name="reactive-desched", version=__version__)
_MAX_INT: Final = 2**63


def resource(endpoint: OtlpEndpoint, instance: str, cluster: str) -> Resource:
    """Return what a signal comes from; `cluster` is empty as long as it is not identified."""
    ours = {
        "service.version": __version__,
        "service.instance.id": instance,
        "k8s.cluster.name": cluster,
    }
    name = {"service.name": endpoint.service_name}
    return Resource(attributes=attributes({**ours, **endpoint.resource_attributes, **name}))


def attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    """Return the attributes that have a value."""
    return [
        KeyValue(key=_utf8(key), value=any_value(value))
        for key, value in values.items()
        if value != ""
    ]


def any_value(value: Any) -> AnyValue:  # what is logged has any type
    """Return a value of JSON as OpenTelemetry writes it; what is none is its text."""
    match value:
        case str():
            return AnyValue(string_value=_utf8(value))
        case bool():
            return AnyValue(bool_value=value)
        case int() if -_MAX_INT <= value < _MAX_INT:
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list() | tuple():
            return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
        case Mapping():
            pairs = [
                KeyValue(key=_utf8(str(key)), value=any_value(each)) for key, each in value.items()
            ]
            return AnyValue(kvlist_value=KeyValueList(values=pairs))
    return AnyValue(string_value=_utf8(str(value)))


def _utf8(text: str) -> str:
    """Return a text that protobuf takes: names of files may hold halves of characters."""
    return text.encode(errors="replace").decode()
