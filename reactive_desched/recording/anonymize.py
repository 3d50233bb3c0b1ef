"""An anonymized recording: each name, label value and text replaced, each match as it was.

What is done about each field of each recorded object stands in one table. A field that is in no
table is an error, so that nothing new gets out by being forgotten.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import count, islice
from random import Random
from typing import Any, Final

from msgspec import Struct, structs

from reactive_desched.errors import RecordingError
from reactive_desched.model import (
    approvals,
    brakes,
    devices,
    health,
    job_tries,
    labels,
    migration_jobs,
    node_affinity,
    objects,
    outcomes,
    pod_groups,
    reservations,
    taints,
    usage,
)
from reactive_desched.model.eviction_options import DeleteOptions, Preconditions
from reactive_desched.model.node_scores import LATEST
from reactive_desched.recording import items
from reactive_desched.recording.anonymize_policy import (
    plugins_in,
    rename_document,
    rename_held_by,
    rename_selector,
)
from reactive_desched.recording.items import Item, Items
from reactive_desched.recording.pseudonyms import Pseudonyms, Texts, Vocabulary

__all__ = ["FIELDS", "Anonymizer", "anonymized"]

Rule = Callable[["_Renaming", Any], Any]

_NUMBERS: Final = (int, float, bool, int | None, float | None, bool | None)
"""What holds no text, and stays without a rule."""

LEFT_OUT: Final = "left out"
"""What stands for words that people or programs wrote: they may name anything."""

_MAX_SHARED: Final = 50_000


def anonymized(read: Callable[[], Items], draw: Random) -> Iterable[Item]:
    """Yield the items of a recording with pseudonyms for all names.

    It is read twice: once for its words, and then to be renamed; what is recorded meanwhile is left
    out. Raises RecordingError where its oldest part was removed meanwhile.
    """
    numbers = count()
    anonymizer = Anonymizer((item for item, _ in zip(read(), numbers, strict=False)), draw)
    try:
        yield from anonymizer.rename(islice(read(), next(numbers)))
    except KeyError as error:
        raise RecordingError("the recording was shortened while it was read: try again") from error


class Anonymizer:
    """Renames items with pseudonyms for the texts of a recording."""

    def __init__(self, of: Items, draw: Random) -> None:
        """Read the texts of a recording; `draw` draws the pseudonyms.

        Raises RecordingError where there are too many.
        """
        vocabulary = Vocabulary()
        reading = _Renaming(vocabulary)
        for item in of:
            reading.struct(item)
        self.pseudonyms: Final = Pseudonyms(vocabulary, draw)
        self._renaming: Final = _Renaming(self.pseudonyms)

    def rename(self, read: Items) -> Iterable[Item]:
        """Yield the items of the same recording, renamed."""
        return map(self._renaming.struct, read)


class _Renaming:
    """Rewrites structs by the table of their fields; shared parts stay shared.

    `plugins` are the names of plugins in the policies so far.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts: Final = texts
        self.plugins: set[str] = set()
        self._shared: dict[int, tuple[Any, Any]] = {}

    def struct(self, value: Any) -> Any:  # a struct of any type of the table
        """Return the struct with what stands for its texts."""
        if (known := self._shared.get(id(value))) is not None:
            return known[1]
        kind: Any = type(value)  # mypy takes no type for a key
        changes = {name: rule(self, getattr(value, name)) for name, rule in _replacing(kind)}
        renamed = structs.replace(value, **changes) if changes else value
        if kind in _SHARED:
            self._share(value, renamed)
        return renamed

    def label_map(self, value: Mapping[str, str]) -> Mapping[str, str]:
        """Return labels with what stands for their keys and values."""
        if (known := self._shared.get(id(value))) is not None:
            renamed: Mapping[str, str] = known[1]
            return renamed
        key, text = self.texts.key, self.texts.value
        renamed = {key(k): text(v) for k, v in value.items()}
        self._share(value, renamed)
        return renamed

    def _share(self, value: Any, renamed: Any) -> None:
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        self._shared[id(value)] = value, renamed  # held, so that its id stays its own


def keep(_: _Renaming, value: Any) -> Any:
    """Keep numbers, times, and words of the API or of this program."""
    return value


def text(to: _Renaming, value: str) -> str:
    """Replace a name, or anything that is compared as one."""
    return to.texts.text(value)


def conditions(to: _Renaming, value: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """Replace the types of a node's conditions, as the policy names them; keep what each says."""
    return tuple((to.texts.text(kind), said) for kind, said in value)


def texts(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace names, in their order."""
    return tuple(map(to.texts.text, value))


def images(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace names of images, and their tags and digests; a missing tag means latest."""
    return tuple(_image(to, each) for each in value)


def _image(to: _Renaming, name: str) -> str:
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return to.texts.text(name)
    return f"{to.texts.text(repository)}:{tag if tag == LATEST else to.texts.text(tag)}"


def key(to: _Renaming, value: str) -> str:
    """Replace the key of a label or taint."""
    return to.texts.key(value)


def keys(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace keys of labels or resources, in their order."""
    return tuple(map(to.texts.key, value))


def label_value(to: _Renaming, value: str) -> str:
    """Replace the value of a label or taint."""
    return to.texts.value(value)


def label_values(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace values of labels."""
    return tuple(map(to.texts.value, value))


def label_map(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Replace labels."""
    return to.label_map(value)


def amounts(to: _Renaming, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Replace the resources that amounts are of."""
    return value and {to.texts.key(resource): amount for resource, amount in value.items()}


def amounts_of_containers(to: _Renaming, value: tuple[tuple[str, int], ...]) -> Any:
    """Replace the resources that containers request."""
    return tuple((to.texts.key(resource), amount) for resource, amount in value)


def uid(to: _Renaming, value: str | None) -> str | None:
    """Replace a uid."""
    return value and to.texts.uid(value)


def uids(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace uids, in their order."""
    return tuple(map(to.texts.uid, value))


def taints_with_times(to: _Renaming, value: tuple[tuple[Struct, float], ...]) -> Any:
    """Rewrite taints, each with its time."""
    return tuple((to.struct(taint), since_s) for taint, since_s in value)


def names_with_times(to: _Renaming, value: tuple[tuple[str, float], ...]) -> Any:
    """Replace the names of objects."""
    return tuple((text(to, name), at_s) for name, at_s in value)


def labels_with_times(to: _Renaming, value: tuple[tuple[str, float, str | None], ...]) -> Any:
    """Replace the keys of labels, and their values before."""
    return tuple(
        (to.texts.key(name), since_s, before and to.texts.value(before))
        for name, since_s, before in value
    )


def annotation(to: _Renaming, value: str | None) -> str | None:
    """Replace the value of an annotation, but for truth, numbers and times, which rules read."""
    if value is None or _is_plain(value):
        return value
    return to.texts.text(value)


def _is_plain(value: str) -> bool:
    from reactive_desched.model.opt_outs import read_opt_out, says_no

    opt_out = read_opt_out(value, 0.0)
    is_number = value.removeprefix("-").isdecimal() and len(value) <= len(str(-(2**31)))
    return says_no(value) or is_number or (opt_out is not None and not opt_out.is_malformed)


def one_of(*known: str) -> Rule:
    """Return what keeps these words, and replaces any other: no API server refuses one there."""

    def rule(to: _Renaming, value: str | None) -> str | None:
        return value if not value or value in known else to.texts.text(value)

    return rule


def answer(_: _Renaming, value: str | None) -> str | None:
    """Keep of an answer to proposals what rules read, and leave out why it was given."""
    from reactive_desched.model.approvals import parse_answer

    if value is None or parse_answer(value) is None:
        return value and LEFT_OUT
    return " ".join(value.split()[:3])


def pool_name(to: _Renaming, value: devices.PoolName) -> devices.PoolName:
    """Replace the names of a driver and of its pool."""
    return devices.PoolName(*map(to.texts.text, value))


def device_ids(to: _Renaming, value: tuple[devices.DeviceId, ...]) -> tuple[devices.DeviceId, ...]:
    """Replace the names of devices."""
    return tuple(devices.DeviceId(*map(to.texts.text, each)) for each in value)


def claims_of_pod(to: _Renaming, value: tuple[tuple[str, str], ...]) -> Any:
    """Replace the names of claims, in the pod and in the cluster."""
    return tuple((to.texts.text(name), claim and to.texts.text(claim)) for name, claim in value)


def qualified(to: _Renaming, value: str) -> str:
    """Replace the name of an attribute, and the domain before it, if there is one."""
    domain, slash, name = value.rpartition("/")
    return f"{domain and to.texts.text(domain)}{slash}{name and to.texts.text(name)}"


def attributes(to: _Renaming, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace the names of attributes, and those of their values that are texts."""
    return {
        qualified(to, name): to.texts.text(each) if isinstance(each, str) else each
        for name, each in value.items()
    }


def capacities(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Replace the names of capacities."""
    return {qualified(to, name): each for name, each in value.items()}


def amounts_of_device(to: _Renaming, value: devices.Amounts) -> devices.Amounts:
    """Replace the names of capacities that a claim asks for or has."""
    return tuple((qualified(to, name), amount) for name, amount in value)


def counters(to: _Renaming, value: devices.Counters) -> devices.Counters:
    """Replace the names of counters, and of their sets."""
    return tuple((to.texts.text(of), to.texts.text(name), amount) for of, name, amount in value)


def requests_of_claim(to: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the names of requests, and of alternatives after them."""
    return tuple(qualified(to, each) for each in value)


def expressions(_: _Renaming, value: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out expressions, which name what they are about: no node fits their pods any more."""
    return tuple("" for _each in value)


def words(_: _Renaming, value: str | None) -> str | None:
    """Leave out what people or programs wrote: rules read no more of it than that it is there."""
    return value and LEFT_OUT


def nothing(_: _Renaming, _value: str) -> str:
    """Leave out what says nothing without the cluster."""
    return ""


def part(to: _Renaming, value: Struct | None) -> Struct | None:
    """Rewrite a struct, if there is one."""
    return None if value is None else to.struct(value)


def parts(to: _Renaming, value: tuple[Struct, ...]) -> tuple[Struct, ...]:
    """Rewrite structs, in their order."""
    return tuple(map(to.struct, value)) if value else value


def group_annotations(to: _Renaming, value: tuple[tuple[str, str], ...]) -> Any:
    """Replace the keys and values of annotations that name groups of pods."""
    return tuple((to.texts.key(each), to.texts.text(name)) for each, name in value)


def api_version(to: _Renaming, value: str) -> str:
    """Replace an API version; the groups of Kubernetes stay, those of others are names."""
    group, slash, version = value.rpartition("/")
    return f"{rename_group(to.texts, group)}{slash}{version}"


def use_by_pod(to: _Renaming, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rewrite the use of pods, by namespace and name."""
    return {to.texts.text(pod): amounts(to, used) for pod, used in value.items()}


def job_conditions(to: _Renaming, value: tuple[tuple[str, str], ...]) -> Any:
    """Replace types of conditions, with their status."""
    return tuple((to.texts.text(kind), status) for kind, status in value)


def field_requirements(to: _Renaming, value: tuple[labels.Requirement, ...]) -> Any:
    """Rewrite requirements on fields of a node, which are names and no labels."""
    return tuple(
        structs.replace(each, values=tuple(map(to.texts.text, each.values))) for each in value
    )


def document(to: _Renaming, value: str) -> str:
    """Rewrite the text of a policy or of settings."""
    to.plugins.update(plugins_in(value))
    return rename_document(value, to.texts)


def annotation_map(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Rewrite the values of annotations that rules read."""
    return {key: annotation(to, said) or "" for key, said in value.items()}


def symptom_labels(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Replace the labels of a sample or an alert, which name what a check holds.

    The names of plugins are those of the policy, where they stay.
    """
    return {rename_held_by(name, to.texts): plugin_name(to, said) for name, said in value.items()}


def plugin_name(to: _Renaming, value: str) -> str:
    """Keep the name of a plugin as the policy does, and replace any other text."""
    return value if value in to.plugins else to.texts.text(value)


def flags(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Rewrite the selector among flags of the command line; others are words of ours."""
    return {
        name: rename_selector(said, to.texts) if name == "nodeSelector" else said
        for name, said in value.items()
    }


def arguments(to: _Renaming, value: Mapping[str, str]) -> Mapping[str, str]:
    """Rewrite the arguments of an order, whose names a replay reads; numbers and times stay."""
    return {name: _ARGUMENTS.get(name, annotation)(to, said) or "" for name, said in value.items()}


def seconds(_: _Renaming, value: str) -> str:
    """Keep a number of seconds, and leave out what is none."""
    with suppress(ValueError):
        return str(float(value))
    return ""


_ARGUMENTS: Final[Mapping[str, Rule]] = {
    "forSeconds": seconds,
    "plugin": plugin_name,
    "reason": words,
}


def rename_group(to: Texts, group: str) -> str:
    """Return what stands for an API group."""
    return group if "." not in group or group.endswith(".k8s.io") else to.text(group)


_METADATA: Final[Mapping[str, Rule]] = {"uid": uid, "resource_version": keep}
_NAMED: Final[Mapping[str, Rule]] = {"name": text, **_METADATA}
_NAMESPACED: Final[Mapping[str, Rule]] = {"namespace": text, **_NAMED}
_POD_GROUP: Final[Mapping[str, Rule]] = {**_NAMESPACED, "rule": part}
_OWNER: Final[Mapping[str, Rule]] = {
    **_METADATA,
    "controller": part,
    "do_not_evict": annotation,
    "answer": answer,
}
_WORKLOAD: Final[Mapping[str, Rule]] = {
    **_NAMESPACED,
    "rollout": keep,
    "do_not_evict": annotation,
    "answer": answer,
}
_USAGE: Final[Mapping[str, Rule]] = {
    "source": text,
    "node": text,
    "usage": amounts,
    "pods": use_by_pod,
}
_ITEM: Final[Mapping[str, Rule]] = {"at": keep}

FIELDS: Final[Mapping[type[Struct], Mapping[str, Rule]]] = {
    # items
    items.PictureBegun: {
        **_ITEM,
        "version": keep,
        "cluster": text,
        "cluster_uid": uid,
        "denied": keep,
    },
    items.PictureEnded: {**_ITEM, "objects": keep},
    items.ObjectFound: {**_ITEM, "resource": keep, "obj": part},
    items.ObjectChanged: {**_ITEM, "resource": keep, "verb": keep, "obj": part},
    items.UsageMeasured: {**_ITEM, "sample": part},
    items.ResourceDenied: {**_ITEM, "resource": keep},
    items.ConfigurationInForce: {
        **_ITEM,
        "policy": document,
        "settings": document,
        "revision": nothing,
        "source": nothing,
        "flags": flags,
    },
    items.PauseSet: {**_ITEM, "name": keep, "reason": words},
    items.HealthAnswered: {**_ITEM, "name": text, "answer": part},
    health.HealthAnswer: {"check": text, "symptoms": parts, "problem": words},
    health.Symptom: {"labels": symptom_labels, "value": keep},
    items.OrderGiven: {**_ITEM, "order": keep, "who": words, "arguments": arguments},
    items.TermChanged: {**_ITEM, "identity": text},
    items.EvictionSettled: {
        **_ITEM,
        "uid": uid,
        "result": keep,
        "reason": keep,
        "message": words,
        "request_id": nothing,
    },
    items.ProcessBegan: {**_ITEM, "history": part, "ended": parts, "inherited": uids},
    items.HistoryRead: {"boot_id": text},
    items.InheritedEnd: {"uid": uid, "result": keep, "reason": keep, "message": words},
    items.InheritedEvictionEnded: {**_ITEM, "end": part},
    items.NodeSeen: {
        **_ITEM,
        "node": text,
        "taints": taints_with_times,
        "labels": labels_with_times,
        "pods": uids,
        "conditions": conditions,
    },
    items.NodesClosed: {**_ITEM, "times": names_with_times},
    items.Worked: {**_ITEM},
    items.LookedForWork: {**_ITEM},
    items.RequestWritten: {**_ITEM, "uid": uid, "request_id": nothing},
    items.EvictionAnswered: {
        **_ITEM,
        "namespace": text,
        "name": text,
        "uid": uid,
        "response": part,
    },
    items.BrakesHeld: {**_ITEM, "saved": part, "pause_file": words, "storm_ends": keep},
    brakes.SavedBrakes: {"pause": part, "storm": words, "answers": parts, "storms": parts},
    brakes.SavedStorm: {"namespace": text, "message": words},
    approvals.SavedAnswer: {"answer": part, "proposals": keep},
    approvals.ProposalAnswer: {"approves": keep, "by": words, "reason": words},
    brakes.SavedPause: {"by": words, "reason": words},
    items.JobLookedAt: {**_ITEM, "name": text, "step": keep},
    items.JobOrderEnded: {**_ITEM, "uid": uid, "error": words},
    items.JobStepEnded: {**_ITEM, "name": text, "error": words},
    items.TaintRefused: {**_ITEM, "node": text, "value": keep},
    items.PodLookedUp: {**_ITEM, "namespace": text, "name": text, "lookup": part},
    outcomes.PodNotFound: {},
    outcomes.PodFound: {"uid": uid, "disruption": keep, "annotations": annotation_map},
    items.NothingChanged: {**_ITEM},
    items.RecordingInterrupted: {**_ITEM, "reason": words},
    # answers of the API server
    outcomes.Accepted: {},
    outcomes.NotFound: {},
    outcomes.DryRun: {},
    outcomes.EffectUnknown: {"error": words},
    outcomes.LeavesLater: {"message": words, "reason": keep},
    outcomes.PdbRefused: {"message": words},
    outcomes.TooManyRequests: {"message": words},
    outcomes.NotSent: {"message": words},
    outcomes.Conflict: {"message": words},
    outcomes.Denied: {"status": keep, "message": words},
    outcomes.ServerError: {"status": keep, "message": words},
    # pods
    objects.Pod: {
        **_NAMESPACED,
        "node": text,
        "labels": label_map,
        "annotations": part,
        "owners": parts,
        "spec": part,
        "status": part,
        "pvc_names": texts,
        "made_claims": claims_of_pod,
        "condition_transitions": keep,
        "resize_delta": amounts,
    },
    objects.Annotations: {
        **dict.fromkeys(objects.Annotations.__struct_fields__, annotation),
        "config_source": one_of("api", "file", "http"),  # as the kubelet writes it
        "job_index_failures": keep,
        "groups": group_annotations,
        "answer": answer,
    },
    objects.OwnerReference: {
        "kind": text,
        "name": text,
        "uid": uid,
        "controller": keep,
        "api_version": api_version,
    },
    objects.PodSpec: {
        "tolerations": parts,
        "node_selector": label_map,
        "node_affinity": part,
        "pod_affinity": parts,
        "anti_affinity": parts,
        "preferred_pod_affinity": parts,
        "preferred_anti_affinity": parts,
        "topology_spread_constraints": parts,
        "host_ports": parts,
        "requests": amounts,
        "implicit_requests": keys,
        "scored_requests": amounts,
        "qos_class": keep,
        "images": images,
        "init_images": images,
        "volume_images": images,
        "scheduler_name": text,
        "restart_policy": keep,
        "scheduling_group": text,
        "required_features": keep,
        "resource_claims": claims_of_pod,
        "device_requests": amounts_of_containers,
        "unread": keep,
    },
    objects.PodAffinityTerm: {
        "topology_key": key,
        "label_selector": part,
        "namespaces": texts,
        "namespace_selector": part,
        "match_label_keys": keys,
        "mismatch_label_keys": keys,
    },
    objects.WeightedPodAffinityTerm: {"pod_affinity_term": part},
    objects.TopologySpreadConstraint: {
        "topology_key": key,
        "when_unsatisfiable": keep,
        "label_selector": part,
        "match_label_keys": keys,
        "node_affinity_policy": keep,
        "node_taints_policy": keep,
    },
    objects.HostPort: {"protocol": keep, "ip": text},
    objects.PodStatus: {
        "phase": keep,
        "reason": text,
        "qos_class": keep,
        "conditions": parts,
        "containers": parts,
        "init_containers": parts,
        "ephemeral_containers": parts,
        "nominated_node": text,
    },
    objects.PodCondition: {"type": text, "status": keep, "reason": text},
    objects.ContainerStatus: {
        "name": text,
        "waiting_reason": text,
        "terminated_reason": text,
    },
    # what selects
    labels.LabelSelector: {"match_labels": label_map, "match_expressions": parts},
    labels.Requirement: {"key": key, "operator": keep, "values": label_values},
    node_affinity.NodeAffinity: {"required": part, "preferred": parts},
    node_affinity.PreferredTerm: {"preference": part},
    node_affinity.NodeSelector: {"node_selector_terms": parts},
    node_affinity.NodeSelectorTerm: {
        "match_expressions": parts,
        "match_fields": field_requirements,
    },
    taints.Taint: {"key": key, "effect": keep, "value": label_value},
    taints.Toleration: {
        "key": key,
        "operator": keep,
        "value": label_value,
        "effect": keep,
    },
    # other objects of a cluster
    objects.Node: {
        **_NAMED,
        "labels": label_map,
        "taints": parts,
        "unschedulable": keep,
        "allocatable": amounts,
        "ready_status": keep,
        "load_capacity": amounts,
        "do_not_disrupt": annotation,
        "scale_down_disabled": annotation,
        "do_not_evict": annotation,
        "taints_added_s": keep,
        "conditions": conditions,
        "conditions_changed_s": keep,
        "declared_features": keep,
        "drain": annotation,
        "drained": annotation,
        "images": parts,
    },
    objects.NodeImage: {"names": images, "size_bytes": keep},
    objects.Namespace: {
        **_NAMED,
        "labels": label_map,
        "do_not_evict": annotation,
        "answer": answer,
    },
    objects.PriorityClass: {**_NAMED, "value": keep},
    objects.PodDisruptionBudget: {
        **_NAMESPACED,
        "selector": part,
    },
    objects.PersistentVolumeClaim: {
        **_NAMESPACED,
        "storage_class": text,
        "volume_name": text,
        "phase": keep,
    },
    objects.PersistentVolume: {
        **_NAMED,
        "required_node_affinity": part,
        "topology_labels": label_map,
        "driver": text,
        "volume_handle": text,
        "claim_ref": text,
    },
    objects.CSINode: {
        **_NAMED,
        "attach_limits": lambda to, value: {
            to.texts.text(driver): limit for driver, limit in value.items()
        },
    },
    devices.ResourceClaim: {
        **_NAMESPACED,
        "requests": parts,
        "constraints": parts,
        "allocation": part,
        "users": uids,
        "pod": uid,
    },
    devices.DeviceAlternatives: {"name": text, "choices": parts},
    devices.DeviceRequest: {
        "device_class": text,
        "selectors": expressions,
        "mode": keep,
        "tolerations": parts,
        "name": text,
        "capacity": amounts_of_device,
    },
    devices.DeviceConstraint: {
        "requests": requests_of_claim,
        "match_attribute": qualified,
        "distinct_attribute": qualified,
    },
    devices.DeviceAllocation: {
        "devices": device_ids,
        "node_selector": part,
        "shares": device_ids,
        "tolerations": lambda to, value: tuple(parts(to, each) for each in value),
        "amounts": lambda to, value: tuple(amounts_of_device(to, each) for each in value),
    },
    devices.DeviceClass: {
        **_NAMED,
        "selectors": expressions,
        "extended_resource": key,
    },
    devices.DeviceTaintRule: {
        **_NAMED,
        "taint": part,
        "driver": text,
        "pool": text,
        "device": text,
        "since_s": keep,
    },
    devices.ResourceSlice: {
        **_NAMED,
        "pool": pool_name,
        "scope": part,
        "devices": parts,
        "counters": counters,
        "is_tried_last": keep,
    },
    devices.NodeScope: {"node": text, "selector": part},
    devices.Device: {
        "name": text,
        "attributes": attributes,
        "capacity": capacities,
        "taints": parts,
        "taint_times": keep,
        "scope": part,
        "consumes": counters,
        "policies": lambda to, value: {
            qualified(to, name): policy for name, policy in value.items()
        },
    },
    devices.CapacityPolicy: dict.fromkeys(
        ("default", "values", "minimum", "maximum", "step"), keep
    ),
    pod_groups.GroupRule: {"quorum": keep, "is_basic": keep, "disruption": keep},
    pod_groups.KubernetesPodGroup: _POD_GROUP,
    pod_groups.KubernetesBetaPodGroup: _POD_GROUP,
    pod_groups.CoschedulingPodGroup: _POD_GROUP,
    pod_groups.KoordinatorPodGroup: _POD_GROUP,
    pod_groups.VolcanoPodGroup: _POD_GROUP,
    pod_groups.KaiPodGroup: _POD_GROUP,
    pod_groups.KubernetesWorkload: {
        **_NAMESPACED,
        "groups": lambda to, value: tuple((to.texts.text(n), part(to, rule)) for n, rule in value),
    },
    objects.ReplicaSet: _OWNER,
    objects.Job: {**_OWNER, "tries": part},
    job_tries.JobTries: {
        **dict.fromkeys(job_tries.JobTries.__struct_fields__, keep),
        "rules": parts,
        "makes_no_pod": words,  # names another controller of the Job
    },
    job_tries.FailureRule: {
        "action": keep,
        "exit_codes": keep,
        "operator": keep,
        "container": text,
        "conditions": job_conditions,
    },
    objects.Deployment: _WORKLOAD,
    objects.StatefulSet: _WORKLOAD,
    objects.DaemonSet: _WORKLOAD,
    # what koordinator's programs and metrics say
    usage.NodeUsage: _USAGE,
    usage.NodeMetric: {**_USAGE, **_METADATA, "pods_usage": amounts},
    migration_jobs.PodReference: {"namespace": text, "name": text, "uid": uid},
    migration_jobs.MigrationJob: {
        **_NAMED,
        "pod": part,
        "status": part,
        "trigger": plugin_name,
        "cause": words,
        "mode": one_of(*migration_jobs.Mode),
        "reservation": text,
        "policy": text,
        "delete_options": part,
    },
    migration_jobs.JobStatus: {
        "phase": keep,
        "step": text,
        "reason": text,
        "message": words,
        "node": text,
        "replacement": part,
        "conditions": parts,
    },
    migration_jobs.JobCondition: {
        "type": text,
        "status": keep,
        "reason": text,
        "message": words,
        "last_transition_time": keep,
        "last_probe_time": keep,
    },
    DeleteOptions: {
        **dict.fromkeys(DeleteOptions.__struct_fields__, keep),
        "propagation_policy": one_of("Foreground", "Background", "Orphan"),
        "dry_run": texts,
        "preconditions": part,
    },
    Preconditions: {"uid": uid, "resource_version": keep},
    reservations.Reservation: {
        **_NAMED,
        "phase": keep,
        "node": text,
        "requests": amounts,
        "unschedulable": words,
        "taken_by": part,
    },
}
"""What is done about each field of each recorded struct."""


@cache
def _replacing(kind: Any) -> tuple[tuple[str, Rule], ...]:
    """Return the fields of a struct in which something is replaced, each with its rule.

    Raises LookupError for a field that can hold a text and has no rule.
    """
    found = []
    for field in structs.fields(kind):
        rule = FIELDS[kind].get(field.name)
        if rule is None and field.type not in _NUMBERS:
            raise LookupError(f"nothing is said of {kind.__name__}.{field.name}: add it to FIELDS")
        if rule is not None and rule is not keep:
            found.append((field.name, rule))
    return tuple(found)


_SHARED: Final = frozenset(
    {objects.PodSpec, objects.PodStatus, objects.OwnerReference, labels.LabelSelector}
)
