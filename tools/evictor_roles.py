"""The roles that evictors need beside the controller's own, written from their declarations."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

from reactive_desched.model.evictor import Evictor
from reactive_desched.model.evictor_table import EVICTORS

__all__ = ["written_roles"]

MIGRATION = Path(__file__).parents[1] / "deploy" / "migration"

_ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
  - {rule}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
  - kind: ServiceAccount
    name: reactive-desched
    namespace: reactive-desched
"""


def written_roles() -> Mapping[Path, str]:
    """Return the manifest of each role, by its file."""
    with_role = [each for each in EVICTORS.values() if each.role]
    return {MIGRATION / each.role / "rbac.yaml": _manifest(each) for each in with_role}


def _manifest(evictor: Evictor) -> str:
    right = evictor.right
    where = "`migration.evictionPolicy` of the settings, or the label koordinator.sh/evict-policy"
    if evictor.for_profiles:
        where = f"`evictions.evictor` or {where}"
    about = (
        f"The right that the evictor {evictor.name} takes: apply it only where {where} of pods or "
        f"jobs, is {evictor.name}:"
    )
    command = f"#   kubectl apply -f deploy/migration/{evictor.role}/rbac.yaml"
    rule = "\n    ".join(
        (
            f"apiGroups: [{right.group or _CORE}]",
            f"resources: [{right.resource}]",
            f"verbs: [{', '.join(right.verbs)}]",
        )
    )
    comments = [_comment(about), command]
    if evictor.role_note:
        comments.append(_comment(evictor.role_note))
    name = f"reactive-desched-{evictor.role}"
    return "\n".join((*comments, _ROLE.format(name=name, rule=rule)))


_CORE = '""'


def _comment(text: str) -> str:
    return fill(text, 98, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
