"""Kubernetes Events: what is written beside the object that an Event is about."""

from msgspec import Struct

CONTROLLER = "reactive-desched"


class Regarding(Struct, frozen=True, rename="camel"):
    """The object an Event is about; `namespace` is empty for one without."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = "v1"

    @property
    def event_namespace(self) -> str:
        """The namespace of its Events: of an object without one they are in `default`.

        `kubectl describe` asks for Events about an object with the namespace that it has itself.
        """
        return self.namespace or "default"


class KubeEvent(Struct, frozen=True):
    """A Kubernetes Event; equal events become one with a count."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    is_warning: bool = False
