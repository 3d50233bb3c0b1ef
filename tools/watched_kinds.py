"""What documentation and manifests say about the watched kinds, written from their table."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from reactive_desched.controller.asked_kinds import ALWAYS_ASKED
from reactive_desched.state.kinds.kind import Purpose
from reactive_desched.state.resources import (
    GANG_RESOURCES,
    PLAN_RESOURCES,
    RESOURCES,
    WATCHED_KINDS,
    AnyWatchedKind,
    resources_read_for,
)

ROOT = Path(__file__).parent.parent
RBAC = ROOT / "deploy" / "base" / "rbac.yaml"
SECURITY = ROOT / "SECURITY.md"
README = ROOT / "README.md"
DOCS = ROOT / "docs"
_ROLE = "../../deploy/base/rbac.yaml"
_PLAN_LIST = re.compile(r"(kubectl get )\S+,\S+( -A -o json)")
_PLAN_RIGHT = re.compile(
    r"(the right to list ).*( is all it takes\n\(if node fit is the scheduler's, ).*( as well\))"
)
_MORE_RIGHTS = re.compile(r"(kubectl create clusterrole reactive-desched-more .*--resource=)\S+()")
_GRANTED_BY_UPSTREAM = {
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
    "pods",
    "priorityclasses",
}
"""What the ClusterRole of the SIG descheduler's Helm chart grants."""
_BEGIN, _END = "watched kinds: written by tools.write_reference", "end of watched kinds"


def watched_kinds_page() -> str:
    """Return the page on watched kinds."""
    lines = [
        "# Watched kinds",
        "",
        "The controller lists and watches these kinds in all namespaces.",
        "It evicts nothing before each of them is in sync.",
        "An optional kind may be forbidden: the controller logs the effect below and goes on.",
        "So it does where no enabled plugin, filter or guard, and no node fit that one asks,",
        "reads a required kind: a policy that is loaded later and reads it pauses evictions.",
        "A right that is missing is named in the log, by `/readyz?verbose` and by `status`, with",
        "the rule to grant; the controller asks again each minute or two.",
        "",
        "| resource | API group | scope | read for | without the right to list it |",
        "|---|---|---|---|---|",
        *map(_row, WATCHED_KINDS.values()),
        "",
        "Of ReplicaSets only the metadata is requested.",
        "The PodGroups and Workloads of gangs are watched while pods of such gangs are there.",
        "Migration jobs are watched where the settings have them, with the rights of",
        "[deploy/migration](../../deploy/migration/rbac.yaml), and devices with those of",
        "[deploy/devices](../../deploy/devices/rbac.yaml); [how](../howto/devices.md).",
        "`run --once` and `plan --as once` read what is for node fit if `nodeFit` is scheduler.",
        "",
        f"Next: [what keeps it safe](../explain/safety.md), [the role to grant]({_ROLE}).",
    ]
    return "\n".join(lines) + "\n"


def _row(kind: AnyWatchedKind) -> str:
    scope = "namespaced" if kind.namespaced else "cluster"
    required = "required" if kind.resource in ALWAYS_ASKED else "required where something reads it"
    effect = kind.if_forbidden or f"{required}: nothing is evicted"
    group = f"`{kind.group}`" if kind.group else "core"
    return f"| `{kind.resource}` | {group} | {scope} | {kind.read_for} | {effect} |"


def verbs(kind: AnyWatchedKind) -> tuple[str, ...]:
    """Return the verbs that the controller's role grants for a kind."""
    is_optional = kind.purpose in (Purpose.OWNERS, Purpose.GANGS)
    return ("list", "watch") if is_optional else ("get", "list", "watch")


def _rbac_rules() -> Iterator[str]:
    def grant(kind: AnyWatchedKind) -> tuple[str, tuple[str, ...]]:
        return kind.group, verbs(kind)

    always = (WATCHED_KINDS[resource] for resource in (*RESOURCES, *GANG_RESOURCES))
    for (group, words), kinds in groupby(sorted(always, key=grant), grant):
        shown = group or '""'
        yield f"  - apiGroups: [{shown}]\n"
        yield f"    resources: [{', '.join(sorted({kind.plural for kind in kinds}))}]\n"
        yield f"    verbs: [{', '.join(words)}]\n"


def _security_sentence() -> str:
    read = {WATCHED_KINDS[resource].plural for resource in (*RESOURCES, *GANG_RESOURCES)}
    *names, last = [f"`{plural}`" for plural in sorted(read)]
    return f"read {', '.join(names)} and {last},\n"


def written_files() -> Mapping[Path, str]:
    """Return the files with a part about watched kinds, as they should be."""
    found = {
        RBAC: _replaced(RBAC, f"  # {_BEGIN}\n", f"  # {_END}\n", "".join(_rbac_rules())),
        SECURITY: _replaced(
            SECURITY, f"<!-- {_BEGIN} -->\n", f"<!-- {_END} -->\n", _security_sentence()
        ),
    }
    for page in (README, *sorted(DOCS.rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if (written := _with_commands(text)) != text or _PLAN_LIST.search(text):
            found[page] = written
    return found


def _with_commands(text: str) -> str:
    """Return a page with the kinds in its commands and sentences about them."""
    required = sorted(resources_read_for(Purpose.DECISIONS))
    for_fit = sorted(resources_read_for(Purpose.NODE_FIT))
    text = _PLAN_LIST.sub(rf"\g<1>{','.join(sorted(PLAN_RESOURCES))}\g<2>", text)
    text = _PLAN_RIGHT.sub(rf"\g<1>{_listed(required)}\g<2>{_listed(for_fit)}\g<3>", text)
    return _MORE_RIGHTS.sub(rf"\g<1>{','.join(_beyond_upstream())}\g<2>", text)


def _beyond_upstream() -> list[str]:
    """Return the kinds that the SIG descheduler's role does not grant, as kubectl names them."""
    more = (
        kind
        for name, kind in WATCHED_KINDS.items()
        if name not in _GRANTED_BY_UPSTREAM and _is_built_in(kind)
    )
    return [f"{kind.resource}.{kind.group}".rstrip(".") for kind in more]


def _is_built_in(kind: AnyWatchedKind) -> bool:
    """Say whether every API server has the kind; kubectl refuses a role for one that is unknown."""
    is_old = kind.purpose not in (Purpose.DEVICES, Purpose.GANGS)
    return is_old and ("." not in kind.group or kind.group.endswith(".k8s.io"))


def _listed(names: list[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def _replaced(file: Path, begin: str, end: str, part: str) -> str:
    before, _, rest = file.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{part}{end}{after}"
