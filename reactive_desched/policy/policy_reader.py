"""From a document to the policy it says, whichever format it is written in."""

from dataclasses import dataclass
from typing import Final

from reactive_desched.policy.decode import Decoder
from reactive_desched.policy.detect_kind import Kind
from reactive_desched.policy.diagnostics import ProblemList, ProblemsElsewhere, quoted
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.documents import Document
from reactive_desched.policy.explain import described
from reactive_desched.policy.legacy_reader import LegacyReader
from reactive_desched.policy.policy import EvictionLimits, Policy, Profile
from reactive_desched.policy.profiles import ProfileReader
from reactive_desched.policy.registry import Registry
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.tree import Items, Table
from reactive_desched.policy.unknown_fields import PolicyAdvice

_IDENTITY: Final = frozenset(("apiVersion", "kind"))


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """A policy, and the document in today's format that it was read from."""

    policy: Policy
    place: Place


class PolicyReader:
    """Reads policies and collects what is wrong; the registry has the evictor in it."""

    def __init__(self, registry: Registry, found: ProblemList) -> None:
        self._registry = registry
        self._found = found

    def read(self, document: Document) -> ReadPolicy | None:
        """Read a policy; None when its top level cannot be made sense of.

        It is sound only if no problem was added.
        """
        place = document.place
        match document.kind:
            case Kind.LEGACY_POLICY:
                place = LegacyReader(self._found).converted(place)
                policy = self._policy(place, document.revision, ProblemsElsewhere(self._found))
            case Kind.UNVERSIONED_POLICY:
                place = Place(place.source, Table(place.root.mark, ()))
                policy = self._policy(place, document.revision, self._found)
            case _:
                policy = self._policy(place, document.revision, self._found)
        return None if policy is None else ReadPolicy(policy, place)

    def _policy(self, place: Place, revision: str, found: ProblemList) -> Policy | None:
        """Decode the profiles apart, so that a problem elsewhere does not hide theirs."""
        decoder = Decoder(found, PolicyAdvice(self._registry))
        top = decoder.decode(PolicyDocument, place, _IDENTITY | {"profiles"})
        reader = ProfileReader(self._registry, decoder, found)
        profiles = _profiles(place.below("profiles"), reader, found)
        if top is None:
            return None
        return Policy(
            profiles=profiles,
            revision=revision,
            source=place.source,
            node_selector=top.node_selector,
            limits=EvictionLimits(
                per_node=top.max_no_of_pods_to_evict_per_node,
                per_namespace=top.max_no_of_pods_to_evict_per_namespace,
                total=top.max_no_of_pods_to_evict_total,
            ),
            grace_period_s=top.grace_period_seconds,
            eviction_failure_event_notification=top.eviction_failure_event_notification,
            metrics_collector_enabled=top.metrics_collector.enabled,
            metrics_providers=top.metrics_providers,
        )


def _profiles(at: Place, reader: ProfileReader, found: ProblemList) -> tuple[Profile, ...]:
    """Read each profile; none at all is legal, and does nothing."""
    if not (at.is_null or isinstance(at.node, Items)):
        hint = 'begin each profile with "- name: …"'
        found.add(at.problem(f"must be a list, not {described(at.node)}", hint))
    profiles = tuple(map(reader.read, at.items()))
    if not profiles and at.origin is None:
        found.warn(at.problem("there are no profiles", "nothing will be evicted"))
    seen: set[str] = set()
    for profile, place in zip(profiles, at.items(), strict=True):
        if profile.name in seen:
            message = f"a profile named {quoted(profile.name)} is there already"
            found.warn(place.problem(message, "names tell profiles apart in logs and metrics"))
        seen.add(profile.name)
    return profiles
