"""`audit`: search the record, show the history of a decision, verify, sum up and export it."""

from reactive_desched.cli import (
    audit_export,
    audit_query,
    audit_report,
    audit_show,
    audit_status,
    audit_verify,
    events,
)
from reactive_desched.cli.commands import Commands

_DESCRIPTION = """\
Look into the record of what was decided and what came of it: a journal that is being written, or a
copy of one. Without --journal and --cluster it is that of the kubeconfig's cluster, which is asked
for the uid of its namespace kube-system where there may be a choice, and for nothing else."""


def add(commands: Commands) -> None:
    """Describe `audit` to the parser."""
    command = commands.add_parser(
        "audit", help="search, explain, prove, sum up and export the record"
    )
    command.describe(
        _DESCRIPTION,
        examples=(
            "reactive-desched audit query -n shop --since 1d",
            "reactive-desched audit show Deployment/web",
        ),
    )
    doing = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (audit_query, audit_show, audit_verify, audit_export, audit_report, audit_status):
        module.add(doing)
    events.add_tail(doing)
