"""Names workloads: for people in one form everywhere, and as the keys that commands take."""

_CLUSTER_SCOPED = frozenset(("Node",))
"""Owners of pods that are in no namespace: static pods belong to their node."""


def workload_name(kind: str, namespace: str, name: str) -> str:
    """Return how messages, tables and pages call a workload: Deployment shop/web."""
    return f"{kind} {name}" if kind in _CLUSTER_SCOPED else f"{kind} {namespace}/{name}"


def workload_key(kind: str, namespace: str, name: str) -> str:
    """Return what commands and queries take, and documents for programs hold."""
    return f"{namespace}/{kind}/{name}"


def workload_words(kind: str, namespace: str, name: str, uid: str) -> tuple[str, ...]:
    """Return all by which a filter of owners finds one; the key alone has two slashes."""
    return (name, f"{kind}/{name}", uid, workload_key(kind, namespace, name))


def key_of_name(text: str) -> str:
    """Return the key of a name for people, Deployment shop/web; other texts as they are."""
    kind, space, rest = text.partition(" ")
    namespace, slash, name = rest.partition("/")
    if not (kind and space and namespace and slash and name) or "/" in kind + name:
        return text
    return workload_key(kind, namespace, name)


def name_of_key(key: str, namespace: str = "") -> str:
    """Return the name for people of a key, or of KIND/NAME of a namespace; others as they are."""
    match key.split("/"):
        case [kind, name] if namespace:
            return workload_name(kind, namespace, name)
        case [within, kind, name]:
            return workload_name(kind, within, name)
        case _:
            return key
