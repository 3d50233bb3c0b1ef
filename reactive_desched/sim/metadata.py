"""Sets the fields of `metadata` that the server decides, and not the client."""

import hashlib
import random
import uuid

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.dice import dice_for
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import bad_request, cause, conflict, invalid

__all__ = ["carried_over", "check_preconditions", "for_create", "generated_name"]

_CLIENT_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED = 63


def generated_name(prefix: str, rng: random.Random) -> str:
    """Append five random characters, cutting the prefix so that the whole stays a DNS label."""
    suffix = "".join(dice_for(rng, "name", prefix).choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
    return prefix[: _LONGEST_GENERATED - _SUFFIX_LENGTH] + suffix


def for_create(
    kind: Resource,
    obj: Obj,
    now: float,
    rng: random.Random,
    uid_salt: int = 0,
    *,
    draws: bool = True,
) -> Obj:
    """Return the metadata of a new object: the client's fields plus those that the server sets.

    The salt, of 128 bits, changes nothing but the uid. Where nothing is to be drawn the uid follows
    from the names and the owner: all else has the luck that it would have without the object.
    """
    wished = obj.get("metadata") or {}
    meta = {field: wished[field] for field in _CLIENT_FIELDS if wished.get(field)}
    if not kind.namespaced:
        meta.pop("namespace", None)
    if "ownerReferences" in meta:
        meta["ownerReferences"] = _one_per_uid(meta["ownerReferences"])
    bits = _drawn_bits(kind, wished, rng) if draws else _bits_of_names(wished)
    meta["uid"] = str(uuid.UUID(int=bits ^ uid_salt, version=4))
    meta["creationTimestamp"] = rfc3339(now)
    if kind.has_generation:
        meta["generation"] = 1
    return meta


def _drawn_bits(kind: Resource, wished: Obj, rng: random.Random) -> int:
    return dice_for(rng, "uid", kind.plural, *_names(wished)).getrandbits(128)


def _bits_of_names(wished: Obj) -> int:
    owners = (each.get("uid") for each in wished.get("ownerReferences") or ())
    text = " ".join(map(str, (*_names(wished), *owners)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def _names(wished: Obj) -> tuple[str, str]:
    return str(wished.get("namespace") or ""), str(wished.get("name") or "")


def carried_over(current: Obj, incoming: Obj) -> Obj:
    """Return the metadata of an update; clients cannot touch identity or deletion marks."""
    wished = incoming.get("metadata") or {}
    meta = {
        key: value
        for key, value in current["metadata"].items()
        if key not in ("labels", "annotations", "ownerReferences", "finalizers")
    }
    for field in ("labels", "annotations", "finalizers"):
        if wished.get(field):
            meta[field] = wished[field]
    if wished.get("ownerReferences"):
        meta["ownerReferences"] = _one_per_uid(wished["ownerReferences"])
    return meta


def _one_per_uid(references: list[Obj]) -> list[Obj]:
    return list({reference.get("uid"): reference for reference in reversed(references)}.values())[
        ::-1
    ]


def check_preconditions(kind: Resource, current: Obj, incoming: Obj) -> None:
    """Refuse an update that was made from another version, or for another object of that name."""
    meta, wished = current["metadata"], incoming.get("metadata") or {}
    name, uid, version = meta["name"], wished.get("uid"), wished.get("resourceVersion")
    if uid and uid != meta["uid"]:
        raise conflict(
            kind,
            name,
            "StorageError: invalid object, Code: 4, Key:"
            f" /registry/{kind.plural}/{'/'.join(filter(None, (meta.get('namespace'), name)))},"
            " ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition:"
            f" {uid}, UID in object meta: {meta['uid']}",
        )
    if not version:
        if kind.blind_update:
            return
        text = "Invalid value: 0: must be specified for an update"
        fault = cause("FieldValueInvalid", "metadata.resourceVersion", text)
        raise invalid(kind, name, [fault], named=kind.plural)
    if not str(version).isdecimal():
        raise bad_request(f'invalid resource version "{version}": it must be a decimal number')
    if version != meta["resourceVersion"]:
        raise conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version"
            " and try again",
        )
