"""Names the types of event for settings, flags and queries: one rule for all of them."""

from typing import Final

TYPE_PREFIX: Final = "io.reactive-desched.descheduler."
_VERSION: Final = ".v1"


def full_type(kind: str) -> str:
    """Return the type that is called so in short, such as eviction.succeeded."""
    return f"{TYPE_PREFIX}{kind}{_VERSION}"


def short_type(type_: str) -> str:
    """Return a type without our prefix and its version."""
    return type_.removeprefix(TYPE_PREFIX).rpartition(".v")[0] or type_


def type_names(type_: str) -> list[str]:
    """Return all that a type is called: in full, in short, and each family it belongs to."""
    kind = short_type(type_)
    names, dot = [type_, kind], kind.find(".")
    while dot >= 0:
        names.append(kind[:dot])
        dot = kind.find(".", dot + 1)
    return names
