"""Files of koordinator's descheduler for tests: their head, and one with given arguments."""

from textwrap import indent
from typing import Final

KOORDINATOR_HEAD: Final = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 60s
"""
_PROFILE: Final = """\
profiles:
- name: p
  plugins:
    deschedule: {enabled: [{name: RemovePodsViolatingNodeTaints}]}
  pluginConfig:
  - name: MigrationController
    args:
"""


def migration_controller(args: str) -> str:
    """Return a file whose only profile has these arguments of MigrationController."""
    return f"{KOORDINATOR_HEAD}{_PROFILE}{indent(args.rstrip(), ' ' * 6)}\n"
