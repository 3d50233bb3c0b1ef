"""What documentation and manifests say about the watched kinds, written from their table."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from reactive_desched.state.kinds.kind import Purpose
from reactive_desched.state.resources import WATCHED_KINDS, AnyWatchedKind

ROOT = Path(__file__).parent.parent
RBAC = ROOT / "deploy" / "base" / "rbac.yaml"
SECURITY = ROOT / "SECURITY.md"
_ROLE = "../../deploy/base/rbac.yaml"
_BEGIN, _END = "watched kinds: written by tools.write_reference", "end of watched kinds"


def watched_kinds_page() -> str:
    """Return the page on watched kinds."""
    lines = [
        "# Watched kinds",
        "",
        "The controller lists and watches these kinds in all namespaces.",
        "It evicts nothing before each of them is in sync.",
        "An optional kind may be forbidden: the controller logs the effect below and goes on.",
        "",
        "| resource | API group | scope | read for | without the right to list it |",
        "|---|---|---|---|---|",
        *map(_row, WATCHED_KINDS.values()),
        "",
        "Of ReplicaSets and Jobs only the metadata is requested.",
        "`plan` and `run --once` read what is for node fit only with `--node-fit scheduler`.",
        "",
        f"Next: [what keeps it safe](../explain/safety.md), [the role to grant]({_ROLE}).",
    ]
    return "\n".join(lines) + "\n"


def _row(kind: AnyWatchedKind) -> str:
    scope = "namespaced" if kind.namespaced else "cluster"
    effect = kind.if_forbidden or "required: nothing is evicted"
    group = f"`{kind.group}`" if kind.group else "core"
    return f"| `{kind.resource}` | {group} | {scope} | {kind.read_for} | {effect} |"


def verbs(kind: AnyWatchedKind) -> tuple[str, ...]:
    """Return the verbs that the controller's role grants for a kind."""
    return ("list", "watch") if kind.purpose is Purpose.RECORDS else ("get", "list", "watch")


def _rbac_rules() -> Iterator[str]:
    def grant(kind: AnyWatchedKind) -> tuple[str, tuple[str, ...]]:
        return kind.group, verbs(kind)

    for (group, words), kinds in groupby(sorted(WATCHED_KINDS.values(), key=grant), grant):
        shown = group or '""'
        yield f"  - apiGroups: [{shown}]\n"
        yield f"    resources: [{', '.join(sorted(kind.resource for kind in kinds))}]\n"
        yield f"    verbs: [{', '.join(words)}]\n"


def _security_sentence() -> str:
    *names, last = [f"`{resource}`" for resource in WATCHED_KINDS]
    return f"read {', '.join(names)} and {last},\n"


def written_files() -> Mapping[Path, str]:
    """Return the files with a part about watched kinds, as they should be."""
    return {
        RBAC: _replaced(RBAC, f"  # {_BEGIN}\n", f"  # {_END}\n", "".join(_rbac_rules())),
        SECURITY: _replaced(
            SECURITY, f"<!-- {_BEGIN} -->\n", f"<!-- {_END} -->\n", _security_sentence()
        ),
    }


def _replaced(file: Path, begin: str, end: str, part: str) -> str:
    before, _, rest = file.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{part}{end}{after}"
