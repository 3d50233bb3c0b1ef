"""The way in: files to one policy and its settings, or to everything wrong with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reactive_desched.policy.advice import PolicyAdvice
from reactive_desched.policy.decode import Advice, Decoder
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.documents import Document, Documents, Source
from reactive_desched.policy.explain import described
from reactive_desched.policy.hints import did_you_mean
from reactive_desched.policy.place import Place
from reactive_desched.policy.policy import EvictionLimits, Policy, Profile
from reactive_desched.policy.problems import PolicyErrors, Problem, ProblemList, quoted
from reactive_desched.policy.profiles import ProfileReader
from reactive_desched.policy.registry import Registry, names, with_evictor
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.policy.tree import Items
from reactive_desched.policy.yaml_text import LARGEST_TEXT

_IDENTITY: Final = frozenset(("apiVersion", "kind"))


@dataclass(frozen=True, slots=True)
class Configuration:
    """All a person configured, and what is worth telling them about it."""

    policy: Policy
    settings: ReactiveSettings
    warnings: tuple[Problem, ...] = ()


def load(paths: Iterable[Path | str], registry: Registry) -> Configuration:
    """Read files that hold, in any order, one policy and at most one set of settings.

    Raises PolicyErrors with everything wrong in all of them, unreadable files included.
    """
    found = ProblemList()
    sources = [source for path in paths if (source := _file(path, found)) is not None]
    return _configuration(sources, registry, found)


def configure(sources: Iterable[Source], registry: Registry) -> Configuration:
    """Read texts that hold, in any order, one policy and at most one set of settings.

    Raises PolicyErrors.
    """
    return _configuration(list(sources), registry, ProblemList())


def load_policy(text: str | bytes, source: str, registry: Registry) -> Policy:
    """Read the policy of one text; settings beside it are checked and left. Raises PolicyErrors."""
    return configure([Source(text, source)], registry).policy


def load_settings(text: str | bytes, source: str) -> ReactiveSettings:
    """Read the settings of one text, whatever policy is beside them. Raises PolicyErrors."""
    found = ProblemList()
    documents = Documents(found)
    documents.add(Source(text, source))
    settings = _settings(documents.settings, found)
    found.raise_any()
    return settings


def _file(path: Path | str, found: ProblemList) -> Source | None:
    """Read one file, at most one byte more than is allowed."""
    try:
        with Path(path).open("rb") as file:
            return Source(file.read(LARGEST_TEXT + 1), str(path))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        found.add(Problem(str(path), 0, 0, "", f"cannot be read: {reason}", _remedy(error)))
        return None


def _remedy(error: Exception) -> str:
    """Say what to do about a file that cannot be read."""
    match error:
        case FileNotFoundError():
            return "check the path"
        case PermissionError():
            return "let the user this runs as read it"
        case IsADirectoryError():
            return "name the file inside"
        case _:
            return "name a readable file"


def _configuration(
    sources: Sequence[Source], registry: Registry, found: ProblemList
) -> Configuration:
    documents = Documents(found)
    for source in sources:
        documents.add(source)
    settings = _settings(documents.settings, found, registry)
    policy = _policy(documents.policy, with_evictor(registry), found)
    found.raise_any()
    if policy is None:
        raise PolicyErrors([_no_policy(sources)])
    return Configuration(policy, settings, found.warnings)


def _no_policy(sources: Sequence[Source]) -> Problem:
    """Say that nothing given holds a policy."""
    where = ", ".join(source.name for source in sources) or "policy"
    hint = "begin one with apiVersion: descheduler/v1alpha2 and kind: DeschedulerPolicy"
    return Problem(where, 0, 0, "", "there is no DeschedulerPolicy here", hint)


def _settings(
    document: Document | None, found: ProblemList, registry: Registry | None = None
) -> ReactiveSettings:
    """Decode the settings, or give the defaults when there are none."""
    if document is None:
        return ReactiveSettings()
    place = document.place
    settings = Decoder(found, Advice()).decode(ReactiveSettings, place, _IDENTITY)
    if settings is None:
        return ReactiveSettings()
    known = names(registry) if registry is not None else settings.debounce.per_plugin.keys()
    for name in settings.debounce.per_plugin.keys() - known:
        at = place.below("debounce", "perPlugin", name)
        found.add(at.problem("there is no such plugin", did_you_mean(name, frozenset(known))))
    return settings


def _policy(document: Document | None, registry: Registry, found: ProblemList) -> Policy | None:
    """Decode the policy; the profiles apart, so that a problem elsewhere does not hide theirs."""
    if document is None:
        return None
    place = document.place
    decoder = Decoder(found, PolicyAdvice(registry))
    top = decoder.decode(PolicyDocument, place, _IDENTITY | {"profiles"})
    profiles = _profiles(place.below("profiles"), ProfileReader(registry, decoder, found), found)
    if top is None:
        return None
    return Policy(
        profiles=profiles,
        revision=document.revision,
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
    if not profiles:
        found.warn(at.problem("there are no profiles", "nothing will be evicted"))
    seen: set[str] = set()
    for profile, place in zip(profiles, at.items(), strict=True):
        if profile.name in seen:
            message = f"a profile named {quoted(profile.name)} is there already"
            found.warn(place.problem(message, "names tell profiles apart in logs and metrics"))
        seen.add(profile.name)
    return profiles
