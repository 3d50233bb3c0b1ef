"""Reads a document, in either format, into the policy it describes."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.api.args import HasMetricsSource
from reactive_desched.api.rules import Rule
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.documents import Document
from reactive_desched.policy.opposed_plugins import opposed_plugins
from reactive_desched.policy.policy import Policy, PolicyEvictionLimits, Profile
from reactive_desched.policy.profiles import ProfileReader
from reactive_desched.policy.registry import EVICT, Registry
from reactive_desched.policy.unknown_fields import PolicyFieldHints
from reactive_desched.policy.yaml.decode import Decoder
from reactive_desched.policy.yaml.diagnostics import (
    Diagnostic,
    DiagnosticDeduplicator,
    DiagnosticList,
)
from reactive_desched.policy.yaml.explain import describe
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode, SequenceNode, find
from reactive_desched.primitives.hints import quote

_IDENTITY: Final = frozenset(("apiVersion", "kind"))


class ReadPolicy(Struct, frozen=True):
    """A policy, and the document in today's format that it was read from.

    A file of koordinator's, and a profile that moves pods by migration jobs, says what settings of
    ours say, too, and may ask for what this version does not do: `obstacles` keep it from running.
    """

    policy: Policy
    location: SourceLocation
    settings: SourceLocation | None = None
    obstacles: tuple[Diagnostic, ...] = ()


class PolicyReader:
    """Reads policies and collects what is wrong; the registry has the evictor in it."""

    def __init__(self, registry: Registry, diagnostics: DiagnosticList) -> None:
        self._registry = registry
        self._diagnostics = diagnostics

    def read(self, document: Document) -> ReadPolicy | None:
        """Read a policy; None when its top level cannot be made sense of.

        It is sound only if no problem was added.
        """
        location = document.location
        settings: SourceLocation | None = None
        obstacles: tuple[Diagnostic, ...] = ()
        match document.kind:
            case DocumentKind.KOORDINATOR:
                from reactive_desched.policy.koordinator.reader import KoordinatorReader

                read = KoordinatorReader(self._diagnostics).read(location)
                location, settings, obstacles = read.policy, read.settings, read.obstacles
                policy = self._decode_policy(
                    location, document.revision, DiagnosticDeduplicator(self._diagnostics)
                )
            case DocumentKind.LEGACY_POLICY:
                from reactive_desched.policy.legacy.reader import LegacyReader

                location = LegacyReader(self._diagnostics).read(location)
                policy = self._decode_policy(
                    location, document.revision, DiagnosticDeduplicator(self._diagnostics)
                )
            case DocumentKind.UNVERSIONED_POLICY:
                location = SourceLocation(location.source, MappingNode(location.root.mark, ()))
                policy = self._decode_policy(location, document.revision, self._diagnostics)
            case _:
                policy = self._decode_policy(location, document.revision, self._diagnostics)
                if _names_what_evicts(location):
                    from reactive_desched.policy.koordinator.job_profiles import read_job_profiles

                    jobs = read_job_profiles(location, self._diagnostics)
                    settings, obstacles = jobs.settings, jobs.obstacles
        return None if policy is None else ReadPolicy(policy, location, settings, obstacles)

    def _decode_policy(
        self, location: SourceLocation, revision: str, diagnostics: DiagnosticList
    ) -> Policy | None:
        """Decode the profiles apart, so that a problem elsewhere does not hide theirs."""
        decoder = Decoder(diagnostics, PolicyFieldHints(self._registry))
        top = decoder.decode(PolicyDocument, location, _IDENTITY | {"profiles"})
        reader = ProfileReader(self._registry, decoder, diagnostics)
        profiles = _read_profiles(location.below("profiles"), reader, diagnostics)
        if top is None:
            return None
        policy = Policy(
            profiles=profiles,
            revision=revision,
            source=location.source,
            node_selector=top.node_selector,
            limits=PolicyEvictionLimits(
                per_node=top.max_no_of_pods_to_evict_per_node,
                per_namespace=top.max_no_of_pods_to_evict_per_namespace,
                total=top.max_no_of_pods_to_evict_total,
            ),
            grace_period_s=top.grace_period_seconds,
            eviction_failure_event_notification=top.eviction_failure_event_notification,
            metrics_collector_enabled=top.metrics_collector.enabled,
            metrics_providers=top.metrics_providers,
        )
        for found in top.warnings():
            diagnostics.warn(location.error(found))
        for warning in (*_missing_sources(policy, location), *opposed_plugins(policy, location)):
            diagnostics.warn(warning)
        return policy


def _names_what_evicts(policy: SourceLocation) -> bool:
    profiles = policy.below("profiles").items()
    return any(not profile.below("plugins", EVICT).is_null for profile in profiles)


def _missing_sources(policy: Policy, location: SourceLocation) -> Iterator[Diagnostic]:
    """Name each plugin that asks for measured use which the policy does not provide."""
    for profile, at in zip(policy.profiles, location.below("profiles").items(), strict=True):
        for entry in at.below("pluginConfig").items():
            name = entry.below("name")
            args = profile.args.get(name.text or "")
            if not isinstance(args, HasMetricsSource) or not args.metrics_source:
                continue
            if args.metrics_source not in policy.metrics_sources:
                yield name.diagnostic(
                    f"metricsProviders has no {args.metrics_source}, so the use of no node is "
                    "known, and nothing is evicted",
                    f"add metricsProviders: [{{source: {args.metrics_source}}}] to the policy",
                    rule=Rule.NO_METRICS_PROVIDER,
                )


def _read_profiles(
    at: SourceLocation, reader: ProfileReader, diagnostics: DiagnosticList
) -> tuple[Profile, ...]:
    """Read each profile; none at all is legal, and does nothing."""
    if not (at.is_null or isinstance(at.node, SequenceNode)):
        hint = 'begin each profile with "- name: …"'
        diagnostics.add(
            at.diagnostic(f"must be a list, not {describe(at.node)}", hint, rule=Rule.WRONG_TYPE)
        )
        return ()
    profiles = tuple(map(reader.read, at.items()))
    if not profiles and at.origin is None and find(at.root, ("strategies",)) is None:
        diagnostics.warn(
            at.diagnostic("there are no profiles", "nothing will be evicted", rule=Rule.NO_PROFILES)
        )
    seen: set[str] = set()
    for profile, location in zip(profiles, at.items(), strict=True):
        if profile.name in seen:
            message = f"a profile named {quote(profile.name)} is there already"
            diagnostics.warn(
                location.diagnostic(
                    message,
                    "names identify profiles in logs and metrics",
                    rule=Rule.PROFILE_NAME_TWICE,
                )
            )
        seen.add(profile.name)
    return profiles
