"""Creates and deletes pods on behalf of their owners, and notifies the owner when it cannot."""

import hashlib
import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reactive_desched.sim.metadata import generated_name
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import from_template, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store

__all__ = ["CREATED", "DELETED", "FAILED_CREATE", "RETRY_S", "PodControl", "template_hash"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def template_hash(template: Any) -> str:
    """Return ten characters that are safe in names and labels; null is the same as absent."""
    canonical = msgspec.json.encode(_without_nulls(template), order="sorted")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big")
    digits: list[str] = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


FAILED_CREATE: Final = "FailedCreate"
CREATED: Final = "SuccessfulCreate"
DELETED: Final = "SuccessfulDelete"
"""The reasons of Events about pods that a controller could not make, made, or deleted."""

RETRY_S: Final = 5.0
"""How long a controller waits after the API server refused to create a pod for it."""


class PodControl:
    """Creates and deletes pods for workload controllers, under one name in the events."""

    def __init__(self, store: Store, rng: random.Random, component: str) -> None:
        self.recorder = Recorder(store, component)
        self._store = store
        self.rng = rng

    def create(self, owner: Obj, labels: Mapping[str, str] | None = None) -> str:
        """Create a pod from the owner's template under a random name; return why it was refused."""
        prefix = f"{owner['metadata']['name']}-"
        pod = from_template(owner, generated_name(prefix, self.rng), labels)
        pod["metadata"]["generateName"] = prefix
        return self.put_for(owner, pod)

    def put_for(self, owner: Obj, pod: Obj, *, draws_uid: bool = True) -> str:
        """Store a finished pod and say so; return why it was refused, empty where it was not.

        `draws_uid` is about the Event.
        """
        if refusal := self.put(owner, pod):
            return refusal
        note = f"Created pod: {name_of(pod)}"
        self.recorder.normal(owner, CREATED, CREATED, note, draws_uid=draws_uid)
        return ""

    def put(self, owner: Obj, pod: Obj) -> str:
        """Store a finished pod; return why it was refused, empty where it was not."""
        try:
            self._store.create("pods", pod)
        except StatusError as error:
            note = f"Error creating: {error.message}"
            self.recorder.warning(owner, FAILED_CREATE, "Creating", note)
            return error.message
        return ""

    def delete_for(self, owner: Obj, pod: Obj, *, draws_uid: bool = True) -> None:
        """Delete exactly this pod, with its own grace, and say so; `draws_uid` as above."""
        self.delete(pod)
        note = f"Deleted pod: {name_of(pod)}"
        self.recorder.normal(owner, DELETED, DELETED, note, draws_uid=draws_uid)

    def delete(self, pod: Obj, grace_s: int | None = None) -> None:
        """Delete exactly this pod, with its own grace unless another is given."""
        uid = pod["metadata"]["uid"]
        options = DeleteOptions(grace_period_seconds=grace_s, uid=uid)
        self._store.delete("pods", *key_of(pod), options)
