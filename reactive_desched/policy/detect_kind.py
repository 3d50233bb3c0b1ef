"""Detects the kind of a document: one of ours, or another that people give by mistake."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from reactive_desched.api.args import Fix
from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList, format_path
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, YamlNode
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

POLICY_KIND: Final = "DeschedulerPolicy"
SETTINGS_KIND: Final = "ReactiveSettings"
KOORDINATOR_KIND: Final = "DeschedulerConfiguration"


class DocumentKind(Enum):
    """The kinds of document a file may hold."""

    POLICY = ("descheduler/v1alpha2", POLICY_KIND)
    LEGACY_POLICY = ("descheduler/v1alpha1", POLICY_KIND)
    UNVERSIONED_POLICY = ("", POLICY_KIND)
    KOORDINATOR = ("descheduler/v1alpha2", KOORDINATOR_KIND)
    SETTINGS = ("reactive-desched/v1alpha1", SETTINGS_KIND)

    @property
    def api_version(self) -> str:
        """The apiVersion such a document begins with."""
        return self.value[0]

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.value[1]

    @property
    def is_policy(self) -> bool:
        """Say whether it is a policy, in whichever format."""
        return self is not DocumentKind.SETTINGS


_POLICIES: Final = {
    kind.api_version: kind for kind in (DocumentKind.POLICY, DocumentKind.LEGACY_POLICY)
}
_VERSIONS: Final = tuple(
    dict.fromkeys(kind.api_version for kind in DocumentKind if kind.api_version)
)
_KINDS: Final = (POLICY_KIND, SETTINGS_KIND)
_SETTINGS_ONLY: Final = frozenset(("budgets", "debounce", "journal"))
_OTHER_KINDS: Final[Mapping[str, str]] = {
    "Config": "this is a kubeconfig: give it with --kubeconfig",
    "ConfigMap": "give the text inside it, not the ConfigMap around it",
    "HelmRelease": "give the policy alone, not the Helm release around it",
    "KubeDescheduler": "this configures an operator: give the policy alone",
}
_HELM: Final = frozenset(("deschedulerPolicy", "deschedulerPolicyAPIVersion"))


def detect_kind(location: SourceLocation, diagnostics: DiagnosticList) -> DocumentKind | None:
    """Say what kind of document this is; None when there is no use in reading it as any.

    A wrong apiVersion or kind is a problem, but the rest is still read where it looks right. As
    upstream, a lenient reading does without the kind, and takes a policy without apiVersion for one
    in which nothing is written.
    """
    root = location.root
    if not isinstance(root, MappingNode):
        shape = "a list" if not isinstance(root, ScalarNode) else "a single value"
        is_markup = isinstance(root, ScalarNode) and root.text.startswith("<")
        hint = (
            "this is HTML or XML, not a policy: look at where it comes from"
            if is_markup
            else f"begin with apiVersion: {DocumentKind.POLICY.value[0]}"
        )
        diagnostics.add(
            location.diagnostic(
                f"a document must be a mapping of fields, not {shape}",
                hint,
                rule=Rule.NOT_A_MAPPING,
            )
        )
        return None
    if (values := _helm_values(location, root)) is not None:
        diagnostics.add(values)
        return None
    kind = _guess_kind(root)
    problems = [
        *_api_version_diagnostics(location, root, kind),
        *_kind_diagnostics(location, root, kind),
    ]
    for problem in problems:
        diagnostics.add(problem)
    if diagnostics.lenient and all(problem.forgivable for problem in problems):
        return kind if "apiVersion" in _keys_with_value(root) else DocumentKind.UNVERSIONED_POLICY
    return kind if not problems or _is_plausible(root, kind) else None


def is_settings(root: YamlNode) -> bool:
    """Say whether a document is meant to hold settings."""
    if not isinstance(root, MappingNode):
        return False
    is_reactive = (
        root.text("apiVersion").startswith("reactive") or root.text("kind") == SETTINGS_KIND
    )
    return is_reactive or bool(not root.text("kind") and root.keys & _SETTINGS_ONLY)


def holds_policy(text: str) -> bool:
    """Say whether a text inside another object is likely to be a policy."""
    return POLICY_KIND in text or KOORDINATOR_KIND in text


def is_koordinators(root: YamlNode) -> bool:
    """Say whether a document is a configuration of koordinator's descheduler."""
    return isinstance(root, MappingNode) and root.text("kind") == KOORDINATOR_KIND


def _helm_values(location: SourceLocation, root: MappingNode) -> Diagnostic | None:
    """Recognise the values file of the Helm chart, which has the policy in it."""
    if _keys_with_value(root) & {"apiVersion", "kind"} or not root.keys & _HELM:
        return None
    hint = (
        "write what is below it in a file that begins with apiVersion: "
        f"{DocumentKind.POLICY.value[0]} and kind: {POLICY_KIND}"
    )
    at = location.below(min(root.keys & _HELM))
    return at.diagnostic(
        "this looks like Helm values, not like a policy", hint, rule=Rule.ENCLOSED_POLICY
    )


def _guess_kind(root: MappingNode) -> DocumentKind:
    """Guess what a document is meant to be."""
    if is_settings(root):
        return DocumentKind.SETTINGS
    if is_koordinators(root):
        return DocumentKind.KOORDINATOR
    if (version := _version(root)) in _POLICIES:
        return _POLICIES[str(version)]
    is_old = "strategies" in root.keys and "profiles" not in root.keys
    return DocumentKind.LEGACY_POLICY if is_old else DocumentKind.POLICY


def _is_plausible(root: MappingNode, kind: DocumentKind) -> bool:
    """Say whether reading on is likely to find problems that are real."""
    if root.text("kind") in _OTHER_KINDS:
        return False
    part = "strategies" if kind is DocumentKind.LEGACY_POLICY else "profiles"
    if kind is DocumentKind.SETTINGS or part in root.keys:
        return True
    return _is_near(_version(root), _VERSIONS) and _is_near(_text_of(root.get("kind")), _KINDS)


def _is_near(written: str | None, names: tuple[str, ...]) -> bool:
    """Say whether a name is one of these, or one that is misspelt."""
    return written in names or (written is not None and nearest_name(written, names) is not None)


def _api_version_diagnostics(
    location: SourceLocation, root: MappingNode, kind: DocumentKind
) -> list[Diagnostic]:
    """Check the apiVersion."""
    written = _version(root)
    if written == kind.api_version or root.text("kind") in _OTHER_KINDS:
        return []
    at = location.below("apiVersion")
    if written is None:
        return [_missing_api_version(at, root, kind)]
    is_ending = any(it.endswith(f"/{written}") for it in _VERSIONS)
    is_near = nearest_name(written, _VERSIONS) or is_ending
    hint = (
        f"did you mean {kind.api_version}?"
        if is_near
        else f"this version reads {_listed(_VERSIONS)}"
    )
    message = f"{quote(written)} is not a known apiVersion"
    fix = Fix(kind.api_version) if sole_near_name(written, _VERSIONS) or is_ending else None
    return [at.diagnostic(message, hint, rule=Rule.UNKNOWN_API_VERSION, fix=fix)]


def _missing_api_version(at: SourceLocation, root: MappingNode, kind: DocumentKind) -> Diagnostic:
    """Say which apiVersion to write, and how upstream reads a policy without one."""
    hint = f"write apiVersion: {kind.api_version}"
    if kind.kind != POLICY_KIND:
        return at.diagnostic("is required", hint, rule=Rule.MISSING_API_VERSION)
    if {"strategies", "profiles"} <= root.keys:
        hint = "strategies are descheduler/v1alpha1, profiles are descheduler/v1alpha2"
    message = "is required: without it upstream reads nothing of the document, and evicts nothing"
    return at.diagnostic(message, hint, lenient_ok=True, rule=Rule.MISSING_API_VERSION)


def _kind_diagnostics(
    location: SourceLocation, root: MappingNode, kind: DocumentKind
) -> list[Diagnostic]:
    """Check the kind."""
    written = _text_of(root.get("kind"))
    if written == kind.kind:
        return []
    at = location.below("kind")
    if written is None:
        hint = f"write kind: {kind.kind}"
        return [
            at.diagnostic("is required", hint, lenient_ok=kind.is_policy, rule=Rule.MISSING_KIND)
        ]
    message = f"{quote(written)} is not a known kind"
    meant = sole_near_name(written, _KINDS)
    is_enclosing = written in _OTHER_KINDS
    return [
        at.diagnostic(
            message,
            _kind_hint(written, root, kind),
            rule=Rule.ENCLOSED_POLICY if is_enclosing else Rule.UNKNOWN_KIND,
            fix=Fix(kind.kind) if meant == kind.kind and not is_enclosing else None,
        )
    ]


def _kind_hint(written: str, root: MappingNode, kind: DocumentKind) -> str:
    """Say what a document of another kind is."""
    if written in _OTHER_KINDS:
        return _OTHER_KINDS[written] + _embedded_policy_hint(root)
    if (meant := nearest_name(written, _KINDS)) is not None:
        return f"did you mean {meant}?"
    if written.endswith("Args"):
        return "arguments of a plugin belong in pluginConfig of a profile"
    if kind is DocumentKind.SETTINGS:
        return f"write kind: {kind.kind}"
    return f"this version reads {_listed(_KINDS)}"


def _embedded_policy_hint(root: MappingNode) -> str:
    """Say where in an object that holds a policy as text, as a ConfigMap does, it is."""
    data = root.get("data")
    for entry in data.entries if isinstance(data, MappingNode) else ():
        if isinstance(entry.value, ScalarNode) and holds_policy(entry.value.text):
            return f": it is below {format_path(('data', entry.key))}"
    return ""


def _version(root: MappingNode) -> str | None:
    return _text_of(root.get("apiVersion"))


def _keys_with_value(root: MappingNode) -> frozenset[str]:
    """Return the keys that have a value."""
    return frozenset(entry.key for entry in root.entries if _text_of(entry.value) is not None)


def _text_of(node: YamlNode | None) -> str | None:
    """Return the scalar there as text; None where there is none."""
    match node:
        case ScalarNode(value=None | "") | None:
            return None
        case ScalarNode(text=text):
            return text
        case _:
            return ""


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
