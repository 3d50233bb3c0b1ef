"""Pods that must not be near others, in few words: `avoiding(web, avoid("app=db", ZONE))`."""

import msgspec

from reactive_desched.model.labels import LabelSelector, parse_selector
from reactive_desched.model.objects import HOSTNAME_LABEL, Pod, PodAffinityTerm


def selector(text: str) -> LabelSelector:
    """Read a selector text as the API's object; what is written a=b becomes matchLabels."""
    found = parse_selector(text).requirements
    plain = [r for r in found if r.operator == "In" and f"{r.key}={r.values[0]}" in text]
    return LabelSelector(
        {r.key: r.values[0] for r in plain}, tuple(r for r in found if r not in plain)
    )


def avoid(
    text: str | None,
    by: str = HOSTNAME_LABEL,
    *,
    namespaces: tuple[str, ...] = (),
    namespaces_like: str | None = None,
) -> PodAffinityTerm:
    """Build a term; None is an absent selector and the empty text one that matches everything."""
    return PodAffinityTerm(
        by,
        None if text is None else selector(text),
        namespaces,
        None if namespaces_like is None else selector(namespaces_like),
    )


def avoiding(pod: Pod, *terms: PodAffinityTerm) -> Pod:
    """Return the pod with required anti-affinity."""
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, anti_affinity=tuple(terms))
    )
