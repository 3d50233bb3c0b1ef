"""Writes the reference pages that come from code; a test holds them equal."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import get_origin

from pydantic import BaseModel

from reactive_desched.api.args import needs_restart
from reactive_desched.controller.coverage import UNAFFECTED_REASONS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.outcomes import OutcomeReason
from reactive_desched.model.scheduling import FitReason
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.field_descriptions import REQUIRED, fields_of, section_of
from reactive_desched.policy.rule_pages import GROUPS, RulePage, rule_pages
from reactive_desched.telemetry.metrics import PREFIX, Family
from tools.commands_page import commands_page
from tools.declared import declared
from tools.evictor_roles import written_roles
from tools.guards_page import guards_page
from tools.plan_example import PAGES, page_with_answer
from tools.watched_kinds import README, watched_kinds_page, written_files
from tools.write_schemas import built_in_settings

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
HELD_PODS = REFERENCE.parent / "runbooks" / "held-pods.md"
DECISIONS = REFERENCE.parent / "adr"
REASON_CODES = REFERENCE.parents[1] / "reactive_desched" / "api" / "reason_codes.py"
_README_WIDTH = 130
_SKIPPED = ("apiVersion", "kind")


def settings_page() -> str:
    """Return the page on ReactiveSettings."""
    lines = [
        "# Settings",
        "",
        "What can be set besides the policy: pace, connections, the journal, sinks and the log.",
        "All of it stands in a second document, in the same file or another (`--settings FILE`):",
        "",
        "```yaml",
        "apiVersion: reactive-desched/v1alpha1",
        "kind: ReactiveSettings",
        "debounce: {quiet: 500ms}",
        "budgets:",
        "  cluster: {evictions: 60, per: 1m, burst: 10}",
        "  node: null",
        "```",
        "",
        "Durations are written as `90s` or `1h30m`. Unknown keys are errors.",
        "",
        "The controller reads changed files [while it runs](../howto/reload.md).",
        "The last column says whether a field takes effect then, or only after a restart.",
        "",
        "| field | default | meaning | takes effect |",
        "|---|---|---|---|",
        *_setting_rows(built_in_settings(), "", after_restart=False),
        *_next_links(
            {
                "change them while it runs": "../howto/reload.md",
                "completion in an editor": "../howto/editor-support.md",
                "what keeps it safe": "../explain/safety.md",
            }
        ),
    ]
    return "\n".join(lines) + "\n"


def plugins_page() -> str:
    """Return the page on plugins and the evictor."""
    lines = [
        "# Plugins",
        "",
        "What each plugin finds, the changes that make it look again, and its arguments.",
        "Names and arguments are those of the SIG descheduler.",
        "`LowNodeLoad` is koordinator's.",
        "`DrainNodes` and `RemovePodsViolatingNodeConditions` are ours.",
        "",
    ]
    plugins = plugin_registry()
    for name in sorted(plugins.built_in()):
        plugin, args = plugins[name].plugin, plugins[name].args
        assert plugin is not None
        lines += [f"## {name}", "", inspect.getdoc(plugin) or "", ""]
        lines += ["Reacts to: " + ", ".join(f"`{c.__name__}`" for c in plugin.reacts_to) + ".", ""]
        lines += ["| argument | default | meaning |", "|---|---|---|", *_rows(args, ""), ""]
    lines += ["## DefaultEvictor", "", inspect.getdoc(DefaultEvictorArgs) or "", ""]
    lines += ["| argument | default | meaning |", "|---|---|---|", *_rows(DefaultEvictorArgs, "")]
    lines += _next_links(
        {
            "where they stand in a policy": "policy-formats.md",
            "what they would find now": "plan.md",
            "what keeps it safe": "../explain/safety.md",
        }
    )
    return "\n".join(lines) + "\n"


def readme() -> str:
    """Return the README with the plugins that run."""
    names = [f"`{name}`" for name in sorted(plugin_registry().built_in())]
    runs = textwrap.fill(f"What runs: {', '.join(names[:-1])} and {names[-1]}", _README_WIDTH)
    text = README.read_text(encoding="utf-8")
    return re.sub(
        r"^What runs: .*?(?=, with)", lambda _: runs, text, flags=re.DOTALL | re.MULTILINE
    )


def decisions_page() -> str:
    """Return the list of the decision records, the newest first."""
    lines = [
        "# Decisions",
        "",
        "Why it is built as it is: what was decided, what that costs, and what was turned down.",
        "An accepted record is not edited later, but for the path of a file that moved;",
        "its first line names the record that replaces it.",
        "",
    ]
    for record in sorted(DECISIONS.glob("[0-9]*.md"), reverse=True):
        title = record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        number, _, decided = title.partition(". ")
        lines.append(f"- {number}: [{decided}]({record.name})")
    lines += _next_links(
        {"how it works": "../explain/architecture.md", "the words": "../explain/glossary.md"}
    )
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Return the page on what /metrics serves."""
    lines = [
        "# Metrics",
        "",
        "What is counted and measured, for dashboards and alerts.",
        "Served at `/metrics`, in the Prometheus text format or OpenMetrics.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for family in declared_families():
        name = PREFIX + family.name + ("_total" if family.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
        lines.append(f"| `{name}` | {family.kind} | {labels} | {family.help} |")
    lines += _next_links(
        {
            "under the SIG descheduler's names": "sig-descheduler.md#metrics",
            "how the journal stands": "../howto/audit.md#status-of-the-journal",
            "what is where on its disk": "journal.md",
        }
    )
    return "\n".join(lines) + "\n"


def codes_with_a_remedy() -> set[str]:
    """Return the reasons for which the runbook has a section: a person has to end them."""
    return set(re.findall(r"^## `(\w+)`$", HELD_PODS.read_text(encoding="utf-8"), re.MULTILINE))


def _reason(code: str, remedies: set[str]) -> str:
    """Return a reason with its anchor, and with a link to what to do about it."""
    link = f"../runbooks/{HELD_PODS.name}#{code.lower()}"
    text = f"[`{code}`]({link})" if code in remedies else f"`{code}`"
    return f'<a id="{code.lower()}"></a>{text}'


def _code(text: str) -> str:
    """Return a text as code; a dash where there is none."""
    return f"`{text}`" if text else "-"


def reasons_page() -> str:
    """Return the page on reason codes."""
    remedies = codes_with_a_remedy()
    lines = [
        "# Reasons",
        "",
        "Every `reason` in events, metrics, the log and `plan` is a code from this page.",
        "A `message` beside it is text for people and may be reworded at any time: match on codes.",
        "A code with a link does not end by itself, and leads to what a person can do.",
        "",
        "## Decisions",
        "",
        "A gate defers or refuses an eviction; `gate` and `reason` identify the decision.",
        "The setting, or the field of the policy, is what the log names as `setting`: changing it",
        "would change the decision.",
        "",
        "| gate | reason | meaning | setting |",
        "|---|---|---|---|",
    ]
    gates = sorted(declared(GateReason), key=lambda each: (each.gate, each.code))
    lines += [
        f"| `{each.gate}` | {_reason(each.code, remedies)} | {each.meaning}"
        f" | {_code(each.setting)} |"
        for each in gates
    ]
    lines += [
        *("", "## Outcomes", ""),
        "`result` decides what happens next; `reason` says how it came about.",
        *("", "| result | reason | meaning |", "|---|---|---|"),
    ]
    outcomes = sorted(declared(OutcomeReason), key=lambda each: (each.result, each.code))
    lines += [
        f"| `{each.result}` | {_reason(each.code, remedies)} | {each.meaning} |"
        for each in outcomes
    ]
    lines += [
        *("", "## Node fit", ""),
        "The message of the gate `NodeFit` counts the nodes that reject the pod by these words.",
        "Those in the kube-scheduler's mode of node fit are the kube-scheduler's.",
        *("", "| reason | words |", "|---|---|"),
    ]
    lines += [f"| `{code}` | {words} |" for code, words in _fit_reasons()]
    lines += [
        *("", "## Pods without a decision", ""),
        "`plan --all` says of every other pod why no plugin wants it to leave.",
        *("", "| reason | meaning |", "|---|---|"),
    ]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in sorted(UNAFFECTED_REASONS.items())]
    lines += _next_links(
        {
            "the events that carry them": "events.md",
            "the metrics with these labels": "metrics.md",
            "what keeps evictions safe": "../explain/safety.md",
        }
    )
    return "\n".join(lines) + "\n"


def policy_rules_page() -> str:
    """Return the page on the codes in messages about policies and settings."""
    pages = rule_pages()
    lines = [
        "# Policy rules",
        "",
        "Every message about a policy or settings ends with the code of its rule: `[RD201]`.",
        "Match on codes: they never change their meaning, and the words of a message may.",
        "",
        "| where | how the code shows |",
        "|---|---|",
        "| `policy check`, `policy convert`, and what `run` and `plan` refuse | ends the message |",
        "| `policy check -o json` | `code`; `fixable` says whether `--fix` corrects it |",
        "| `policy check -o github` | `title` |",
        "| `policy check -o sarif` | `ruleId`, with the rule's section of this page as help |",
        "| a reload: the log and Events `PolicyRejected` | ends the message |",
        "",
        "`reactive-desched policy rule RD201` prints one section of this page.",
        "What `--fix` corrects, and how: [corrections](policy-formats.md#corrections).",
        "",
        "| code | rule | about | `--fix` |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| [{rule}](#{_anchor(page)}) | {page.name} | {page.summary} | {_yes(bool(page.fix))} |"
        for rule, page in pages.items()
    ]
    for beginning, heading in GROUPS.items():
        lines += ["", f"## {heading}"]
        for rule, page in pages.items():
            if rule.startswith(beginning):
                lines += ["", *page.markdown().splitlines()]
    lines += _next_links(
        {
            "how strictly policies are read": "policy-formats.md#strict-and-lenient",
            "plugins and their arguments": "plugins.md",
            "settings": "settings.md",
        }
    )
    return "\n".join(lines) + "\n"


def _yes(is_so: bool) -> str:  # noqa: FBT001 - a cell of a table
    return "yes" if is_so else "-"


def _anchor(page: RulePage) -> str:
    """Return the anchor of a rule's heading, as GitHub makes it."""
    return f"{page.rule} {page.name}".lower().replace(" ", "-")


def reason_codes_module() -> str:
    """Return the module that lists the codes, so that commands need not import every gate."""
    gates = declared(GateReason)
    codes = {each.code for each in gates} | {each.code for each in declared(OutcomeReason)}
    return (
        '"""Every reason code and every gate, for commands; written by `make generated`."""\n\n'
        "from typing import Final\n\n"
        f"REASON_CODES: Final = (\n{_listed(codes)})\n\n"
        f"GATES: Final = (\n{_listed({each.gate for each in gates})})\n\n"
        f"SETTINGS: Final = {{\n{_settings_of(gates)}}}\n"
        '"""The setting, or field of the policy, that would change a decision of this reason."""\n'
    )


def _settings_of(gates: Iterable[GateReason]) -> str:
    settings = {each.code: each.setting for each in gates if each.setting}
    return "".join(f'    "{code}": "{setting}",\n' for code, setting in sorted(settings.items()))


def _listed(names: set[str]) -> str:
    return "".join(f'    "{name}",\n' for name in sorted(names))


def _fit_reasons() -> Iterator[tuple[str, str]]:
    """Yield each code of a FitReason with the words that go with it."""
    found = sorted(declared(FitReason), key=lambda each: (each.code, each.message))
    for code, reasons in groupby(found, key=lambda each: each.code):
        yield code, "; ".join(each.message.format("NAME") for each in reasons)


def _next_links(links: Mapping[str, str]) -> list[str]:
    """Return the end of a page: where to go from here."""
    return [
        "",
        f"Next: {', '.join(f'[{link_texts}]({page})' for link_texts, page in links.items())}.",
    ]


def declared_families() -> list[Family]:
    """Return the families that any module of the package declares, by name."""
    return sorted(declared(Family))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for each in fields_of(model, prefix):
        default = f"`{each.default}`" if each.default not in ("", REQUIRED) else each.default
        yield f"| `{each.name}` | {default or '-'} | {each.meaning.replace('|', chr(92) + '|')} |"


def _setting_rows(model: type[BaseModel], prefix: str, *, after_restart: bool) -> Iterator[str]:
    """Yield a row for each setting, with when a change of it takes effect."""
    for name, field in model.model_fields.items():
        written = str(field.serialization_alias or field.alias or name)
        if written in _SKIPPED:
            continue
        section, late = section_of(field), after_restart or needs_restart(field)
        if section is not None and get_origin(field.annotation) is not dict:
            yield from _setting_rows(section, f"{prefix}{written}.", after_restart=late)
        else:
            [row] = [
                row for row in _rows(model, prefix) if row.startswith(f"| `{prefix}{written}`")
            ]
            yield f"{row} {'after a restart' if late else 'on reload'} |"


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    (REFERENCE / "settings.md").write_text(settings_page(), encoding="utf-8")
    (REFERENCE / "plugins.md").write_text(plugins_page(), encoding="utf-8")
    (REFERENCE / "metrics.md").write_text(metrics_page(), encoding="utf-8")
    (REFERENCE / "watched-kinds.md").write_text(watched_kinds_page(), encoding="utf-8")
    for file, text in written_roles().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for file, text in written_files().items():
        file.write_text(text, encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
    (DECISIONS / "README.md").write_text(decisions_page(), encoding="utf-8")
    for page in PAGES:
        page.write_text(page_with_answer(page), encoding="utf-8")
    (REFERENCE / "reasons.md").write_text(reasons_page(), encoding="utf-8")
    REASON_CODES.write_text(reason_codes_module(), encoding="utf-8")
    (REFERENCE / "policy-rules.md").write_text(policy_rules_page(), encoding="utf-8")
    (REFERENCE / "guards.md").write_text(guards_page(), encoding="utf-8")
    (REFERENCE / "commands.md").write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
