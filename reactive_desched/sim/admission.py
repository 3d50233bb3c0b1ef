"""Checks a create against the rest of the store: its namespace, its priority class."""

from collections.abc import Callable, Iterable

from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.resources import RESOURCES, Resource
from reactive_desched.sim.status import bad_request, cause, forbidden, not_found
from reactive_desched.sim.storage_classes import default_class

__all__ = [
    "admit_namespace",
    "admit_priority",
    "admit_service_account",
    "admit_storage_class",
]

_DEFAULT_ACCOUNT = "default"
_DEFAULT_POLICY = "PreemptLowerPriority"


def admit_namespace(kind: Resource, obj: Obj, find: Callable[[str], Obj | None]) -> None:
    """Refuse to create in a namespace that is missing or on its way out."""
    if not kind.namespaced:
        return
    namespace, name = namespace_of(obj), name_of(obj)
    if not namespace:
        raise bad_request(f"{kind.plural} live in a namespace: set metadata.namespace")
    home = find(namespace)
    if home is None:
        raise not_found(RESOURCES["namespaces"], namespace)
    if home["metadata"].get("deletionTimestamp"):
        why = f"because it is being terminated: namespace {namespace}"
        text = f"unable to create new content in namespace {namespace} {why.partition(':')[0]}"
        causes = [
            cause(
                "NamespaceTerminating",
                "metadata.namespace",
                f"namespace {namespace} is being terminated",
            )
        ]
        raise forbidden(kind, name, text, causes)


def admit_service_account(pod: Obj, find: Callable[[str, str], Obj | None]) -> None:
    """Refuse a pod of a ServiceAccount that is not there; `default` is made with a namespace."""
    namespace, name = namespace_of(pod), pod["spec"].get("serviceAccountName", _DEFAULT_ACCOUNT)
    if name != _DEFAULT_ACCOUNT and find(namespace, name) is None:
        text = (
            f"error looking up service account {namespace}/{name}: serviceaccount"
            f' "{name}" not found'
        )
        raise forbidden(RESOURCES["pods"], name_of(pod), text)


def admit_storage_class(claim: Obj, classes: Iterable[Obj]) -> None:
    """Give a claim that names no class the default one, where there is one."""
    if claim["spec"].get("storageClassName") is None and (name := default_class(classes)):
        claim["spec"]["storageClassName"] = name


def admit_priority(pod: Obj, classes: Iterable[Obj]) -> None:
    """Copy priority and preemption policy from the pod's class, or from the global default."""
    spec = pod["spec"]
    chosen = _class_of(pod, list(classes))
    value = chosen.get("value", 0) if chosen else 0
    policy = (chosen or {}).get("preemptionPolicy", _DEFAULT_POLICY)
    if spec.get("priority", value) != value:
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(RESOURCES["pods"], name_of(pod), text)
    if spec.get("preemptionPolicy", policy) != policy:
        text = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be"
            f" provided in pod spec; priority admission controller computed {policy} from the"
            " given PriorityClass name"
        )
        raise forbidden(RESOURCES["pods"], name_of(pod), text)
    if chosen:
        spec["priorityClassName"] = name_of(chosen)
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def _class_of(pod: Obj, classes: list[Obj]) -> Obj | None:
    wanted = pod["spec"].get("priorityClassName")
    if not wanted:
        defaults = [c for c in classes if c.get("globalDefault")]
        return min(defaults, key=lambda c: int(c.get("value", 0)), default=None)
    for candidate in classes:
        if name_of(candidate) == wanted:
            return candidate
    raise forbidden(
        RESOURCES["pods"], name_of(pod), f"no PriorityClass with name {wanted} was found"
    )
