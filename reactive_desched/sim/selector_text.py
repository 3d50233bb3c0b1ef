"""Selectors in the words of a command line, for tables and for the status of a Scale."""

from reactive_desched.sim.objects import Obj

__all__ = ["selector_text"]


def selector_text(selector: Obj | None) -> str:
    """Return a label selector, structured or plain, as `kubectl -l` would take it.

    All terms are in the order of their keys, whichever way they were written, as the real server
    has them.
    """
    given = selector or {}
    structured = "matchLabels" in given or "matchExpressions" in given
    plain = (given.get("matchLabels") or {}) if structured else given
    terms = [(key, f"{key}={value}") for key, value in plain.items()]
    if structured:
        expressions = given.get("matchExpressions") or ()
        terms += [(str(term.get("key")), _expression(term)) for term in expressions]
    return ",".join(words for _, words in sorted(terms, key=lambda term: term[0]))


def _expression(term: Obj) -> str:
    key, operator = term.get("key"), str(term.get("operator"))
    match operator:
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(term.get('values') or ()))})"
