"""Objects as kubectl names them: KIND/NAME or KIND NAME, with short names, plurals and groups."""

from collections.abc import Sequence
from typing import Final

from reactive_desched.errors import ConfigError
from reactive_desched.text.workloads import workload_key

_SHORT_NAMES: Final = {
    "Pod": ("po",),
    "Node": ("no",),
    "Deployment": ("deploy",),
    "ReplicaSet": ("rs",),
    "StatefulSet": ("sts",),
    "DaemonSet": ("ds",),
    "Job": (),
    "CronJob": ("cj",),
    "ReplicationController": ("rc",),
}
_KINDS: Final = {
    word: kind
    for kind, short in _SHORT_NAMES.items()
    for word in (kind.lower(), f"{kind.lower()}s", *short)
}


_NO_NAMESPACES: Final = frozenset({"pod", "pods", "node", "nodes"})
"""Words before a slash that are taken for kinds, also where a namespace may stand."""


def kind_of(word: str) -> str:
    """Return the kind that kubectl understands by a word, such as `deploy`; empty for none.

    `deployments.apps`, with the API group, is one as well, and a CamelCase word is the kind itself.
    """
    kind, _, group = word.partition(".")
    if found := _KINDS.get(kind.lower()):
        return found
    is_kind = kind[:1].isupper() and kind.isalnum() and not kind.isupper()
    return kind if is_kind and (not group or group.replace(".", "").isalnum()) else ""


def questions_of(words: Sequence[str], namespace: str | None) -> list[dict[str, str]]:
    """Return what a command line asks about: several pods and the like, or one as KIND NAME.

    Raises ConfigError for words that name none of them.
    """
    if len(words) > 1 and not kind_of(words[0]):
        return [question_of([word], namespace) for word in words]
    return [question_of(words, namespace)]


def question_of(words: Sequence[str], namespace: str | None) -> dict[str, str]:
    """Return what a command line asks about: a pod, a node, or an owner, by its key.

    Raises ConfigError for words that name none of them, or several.
    """
    *before, name = " ".join(words).split() or [""]
    if len(before) > 1:
        raise ConfigError(f"one pod at a time: there is {' and '.join(words)}")
    kind = kind_of(before[0]) if before else ""
    if before and not kind:
        raise ConfigError(f"one pod at a time: there is {' and '.join(words)}")
    if not before and "/" in name:
        prefix, _, rest = name.partition("/")
        found = kind_of(prefix)
        # without -n a word such as `jobs` may be a namespace as well as a kind
        if prefix in _NO_NAMESPACES or (found and namespace is not None):
            kind, name = found, rest
    return _question(kind or "Pod", name, namespace)


def _question(kind: str, name: str, namespace: str | None) -> dict[str, str]:
    if kind == "Node":
        if namespace is not None:
            raise ConfigError("a node has no namespace: leave -n out")
        return {"node": name}
    if namespace is not None:
        if "/" in name:
            raise ConfigError(f"{name} has a namespace already: leave -n out")
        name = f"{namespace}/{name}"
    if kind == "Pod":
        return {"pod": name}
    namespace, _, rest = name.partition("/")
    if not rest:
        raise ConfigError(f"say the namespace of {kind}/{name}: -n NAMESPACE")
    return {"owner": workload_key(kind, namespace, rest)}


def owner_key(words: Sequence[str]) -> str:
    """Return the key of a workload: of KIND NAMESPACE/NAME, in one word or two; else the word.

    Raises ConfigError for words that name no workload, or several.
    """
    match " ".join(words).split():
        case [word]:
            return word
        case [kind, name] if (found := kind_of(kind)) and name.count("/") == 1:
            return workload_key(found, *name.split("/"))
    raise ConfigError(f"one workload at a time, as KIND NAMESPACE/NAME: there is {' '.join(words)}")


def hint_for(words: Sequence[str]) -> str:
    """Return how to ask about a workload, where a word for a kind was read as a namespace."""
    prefix, _, name = words[-1].partition("/") if len(words) == 1 else ("", "", "")
    if not name or "/" in name or prefix in _NO_NAMESPACES or not kind_of(prefix):
        return ""
    if (kind := kind_of(prefix)) in ("Pod", "Node"):
        return f"; if a {kind} is meant, write {kind.lower()}/{name}"
    return f"; if {prefix}/{name} is a {kind}, say its namespace: -n NAMESPACE"
