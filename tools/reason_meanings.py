"""Writes what each reason code means, for `policy explain` and for the live page."""

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

from reactive_desched.controller.coverage import UNAFFECTED_REASONS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.outcomes import OutcomeReason
from reactive_desched.policy.field_descriptions import without_links
from tools.declared import declared

_PACKAGE: Final = Path(__file__).resolve().parents[1] / "reactive_desched"
DATA: Final = _PACKAGE / "api" / "reasons.json"
PAGE: Final = _PACKAGE / "web" / "ui" / "reasons.html"
RUNBOOK: Final = _PACKAGE.parent / "docs" / "runbooks" / "held-pods.md"

_POINTER: Final = re.compile(r"[:.] \[[^]]*\]\([^)]*\)\.")
"""A link at the end of a sentence, or in its place, which says nothing without its page."""

_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reasons - reactive-desched</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
</head>
<body>
<main>
<h1>Reasons</h1>
<p>What the codes mean that events, metrics, the log, <code>why</code> and the live page give as
reason, and what to do about those that do not end by themselves.
<code>reactive-desched policy explain CODE</code> prints the same.</p>
<dl>
"""


def meanings() -> Mapping[str, list[str]]:
    """Return the sentences on each code, each with who gives it."""
    found: dict[str, list[str]] = {}
    for gate in sorted(declared(GateReason), key=lambda each: (each.code, each.gate)):
        setting = f" Setting: {gate.setting}." if gate.setting else ""
        found.setdefault(gate.code, []).append(f"Gate {gate.gate}: {gate.meaning}{setting}")
    for outcome in sorted(declared(OutcomeReason), key=lambda each: (each.code, each.result)):
        text = f"Outcome {outcome.result}: {outcome.meaning}"
        found.setdefault(outcome.code, []).append(text)
    for code, meaning in UNAFFECTED_REASONS.items():
        found.setdefault(code, []).append(f"No plugin looks at the pod: {meaning}")
    for code, remedy in remedies().items():
        found[code].append(f"What to do: {remedy}")
    return dict(sorted(found.items()))


def remedies() -> Mapping[str, str]:
    """Return what a person does about a code that does not end by itself, from its runbook."""
    sections = RUNBOOK.read_text(encoding="utf-8").split("\n## `")[1:]
    found: dict[str, str] = {}
    for section in sections:
        code, _, text = section.partition("`")
        paragraphs = text.split("\nNext: ")[0].split()
        found[code] = without_links(_POINTER.sub(".", " ".join(paragraphs)))
    return found


def data() -> str:
    """Return the meanings as commands read them: they need not import every gate."""
    return json.dumps(meanings(), indent=1) + "\n"


def page() -> str:
    """Return the page that the codes on the live page lead to."""
    lines = []
    for code, texts in meanings().items():
        lines.append(f'<dt id="{code}"><code>{code}</code></dt>')
        lines += [f"<dd>{escape(text)}</dd>" for text in texts]
    return _HEAD + "\n".join([*lines, "</dl>", "</main>", "</body>", "</html>", ""])


def main() -> None:
    """Write the data and the page."""
    DATA.write_text(data(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
