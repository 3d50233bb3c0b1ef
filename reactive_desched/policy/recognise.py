"""What kind of document this is, and what it looks like when it is none of ours."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from reactive_desched.policy import document, settings
from reactive_desched.policy.hints import nearest
from reactive_desched.policy.place import Place
from reactive_desched.policy.problems import Problem, ProblemList, quoted
from reactive_desched.policy.tree import Node, Scalar, Table


class Kind(Enum):
    """The kinds of document a file may hold."""

    POLICY = (document.API_VERSION, document.KIND)
    SETTINGS = (settings.API_VERSION, settings.KIND)

    @property
    def api_version(self) -> str:
        """The apiVersion such a document begins with."""
        return self.value[0]

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.value[1]


_V1ALPHA1: Final = "descheduler/v1alpha1"
_SETTINGS_ONLY: Final = frozenset(("budgets", "debounce", "journal"))
_OTHER_KINDS: Final[Mapping[str, str]] = {
    "ConfigMap": "give the text inside it, not the ConfigMap around it",
    "DeschedulerConfiguration": "this is a file of the koordinator descheduler: write its profiles "
    "as a DeschedulerPolicy",
    "HelmRelease": "give the policy alone, not the Helm release around it",
    "KubeDescheduler": "this configures an operator: give the policy alone",
}


def recognise(place: Place, found: ProblemList) -> Kind | None:
    """Say what kind of document this is; None when there is no use in reading it as any.

    A wrong apiVersion or kind is a problem, but the rest is still read where it looks right.
    """
    root = place.root
    if not isinstance(root, Table):
        shape = "a list" if not isinstance(root, Scalar) else "a single value"
        hint = f"begin with apiVersion: {document.API_VERSION}"
        found.add(place.problem(f"a document must be a mapping of fields, not {shape}", hint))
        return None
    if root.text("apiVersion") == _V1ALPHA1 and root.text("kind") in ("", document.KIND):
        message = f"{_V1ALPHA1} is known, but not read yet in this version"
        hint = f"write the policy as {document.API_VERSION}, with profiles instead of strategies"
        found.add(place.below("apiVersion").problem(message, hint))
        return None
    kind = _likely(root)
    problems = [*_version_problems(place, root, kind), *_kind_problems(place, root, kind)]
    for problem in problems:
        found.add(problem)
    return kind if not problems or _looks_like(root, kind) else None


def _likely(root: Table) -> Kind:
    """Guess what a document is meant to be."""
    ours = root.text("apiVersion").startswith("reactive") or root.text("kind") == settings.KIND
    nameless = not root.text("kind") and root.keys & _SETTINGS_ONLY
    return Kind.SETTINGS if ours or nameless else Kind.POLICY


def _looks_like(root: Table, kind: Kind) -> bool:
    """Say whether reading on is likely to find problems that are real."""
    if root.text("kind") in _OTHER_KINDS:
        return False
    return kind is Kind.SETTINGS or "profiles" in root.keys


def _version_problems(place: Place, root: Table, kind: Kind) -> list[Problem]:
    """Check the apiVersion."""
    written = _written(root.get("apiVersion"))
    if written == kind.api_version:
        return []
    if written is None:
        hint = f"write apiVersion: {kind.api_version}"
        if "strategies" in root.keys:
            hint = "strategies are descheduler/v1alpha1, profiles are descheduler/v1alpha2"
        return [place.below("apiVersion").problem("is required", hint)]
    known = [each.api_version for each in Kind]
    meant = nearest(written, known) or next((it for it in known if it.endswith(written)), None)
    hint = f"did you mean {meant}?" if meant else f"this version reads {' and '.join(known)}"
    message = f"{quoted(written)} is not an apiVersion that is read here"
    return [place.below("apiVersion").problem(message, hint)]


def _kind_problems(place: Place, root: Table, kind: Kind) -> list[Problem]:
    """Check the kind."""
    written = _written(root.get("kind"))
    if written == kind.kind:
        return []
    if written is None:
        return [place.below("kind").problem("is required", f"write kind: {kind.kind}")]
    message = f"{quoted(written)} is not a kind that is read here"
    return [place.below("kind").problem(message, _kind_hint(written, kind))]


def _kind_hint(written: str, kind: Kind) -> str:
    """Say what a document of another kind is."""
    if written in _OTHER_KINDS:
        return _OTHER_KINDS[written]
    if (meant := nearest(written, [each.kind for each in Kind])) is not None:
        return f"did you mean {meant}?"
    if written.endswith("Args"):
        return "arguments of a plugin belong in pluginConfig of a profile"
    if kind is Kind.SETTINGS:
        return f"write kind: {kind.kind}"
    return f"this version reads {' and '.join(each.kind for each in Kind)}"


def _written(node: Node | None) -> str | None:
    """Give what stands there as text; None for nothing."""
    match node:
        case Scalar(value=None) | None:
            return None
        case Scalar(text=text):
            return text
        case _:
            return ""
