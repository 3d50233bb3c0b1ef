"""Kubernetes Events: what is written beside the object that an Event is about."""

from msgspec import Struct

CONTROLLER = "reactive-desched"


class Regarding(Struct, frozen=True, rename="camel"):
    """The object an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = "v1"


class KubeEvent(Struct, frozen=True):
    """A Kubernetes Event; equal events become one with a count."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    is_warning: bool = False
