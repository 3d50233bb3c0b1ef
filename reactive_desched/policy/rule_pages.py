"""The page of each rule of the policy checker, from `rules.toml`.

Read by `policy rule`, by SARIF and by the generator of docs/reference/policy-rules.md.
"""

import tomllib
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from functools import cache
from importlib.resources import files
from textwrap import indent
from typing import Final

from msgspec import Struct, convert

from reactive_desched.api.rules import Rule

GROUPS: Final[Mapping[str, str]] = {
    "RD0": "Files and YAML",
    "RD1": "Documents",
    "RD2": "Fields and values",
    "RD3": "Arguments of plugins",
    "RD4": "Plugins and profiles",
    "RD5": "Other formats and deprecated fields",
    "RD6": "Settings and flags",
}
"""The headings of the page, by how the codes below them begin."""

_ORIGINS: Final[Mapping[str, str]] = {
    "sig": "The SIG descheduler refuses this, too.",
    "silent": "The SIG descheduler accepts this without a word.",
    "says": "The SIG descheduler accepts this.",
    "ours": "This is a rule of reactive-desched alone.",
}
_HEADS: Final[Mapping[str, str]] = {
    "v1alpha2": "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n",
    "v1alpha1": "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n",
    "settings": "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n",
}
_EVICTOR: Final = "DefaultEvictor"
_NEEDS_NO_ARGUMENTS: Final = "RemovePodsViolatingNodeTaints"
_SHOWN_BEFORE_AND_AFTER: Final = 1


class RulePage(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for people: see the head of `rules.toml` for each field."""

    rule: Rule
    summary: str
    meaning: str
    severity: str
    origin: str
    fix: str = ""
    flags: str = ""
    inside: str = ""
    example: str = ""
    mended: str = ""

    @property
    def name(self) -> str:
        """The rule in words with hyphens, for programs that show names."""
        return self.rule.name.lower().replace("_", "-")

    @property
    def uri(self) -> str:
        """Return what identifies the rule everywhere."""
        return f"urn:reactive-desched:policy-rules:{self.rule}"

    @property
    def command(self) -> str:
        """The command that shows the example's message."""
        flags = self.flags or "check"
        return f"policy {f'check {flags}' if flags.startswith('-') else flags}"

    @property
    def example_text(self) -> str:
        """A whole file with the mistake; empty where no text of a file can show it."""
        return self._whole(self.example)

    @property
    def mended_text(self) -> str:
        """The same file without the mistake."""
        return self._whole(self.mended)

    def markdown(self) -> str:
        """Return the rule's section of the page."""
        return "\n".join(self._lines()) + "\n"

    def _whole(self, part: str) -> str:
        """Wrap an example into a whole file, unless it is one."""
        if not self.inside or part.startswith("apiVersion:"):
            return part
        if (head := _HEADS.get(self.inside)) is not None:
            return head + part
        point, plugin = self.inside.split()
        enabled = _NEEDS_NO_ARGUMENTS if plugin == _EVICTOR else plugin
        return (
            f"{_HEADS['v1alpha2']}profiles:\n- name: default\n  pluginConfig:\n"
            f"  - name: {plugin}\n    args:\n{indent(part, ' ' * 6)}"
            f"  plugins:\n    {point}:\n      enabled: [{enabled}]\n"
        )

    def _lines(self) -> Iterator[str]:
        yield from (f"### {self.rule} {self.name}", "", f"{self.summary}.", "", self.meaning, "")
        level = "An error" if self.severity == "error" else "A warning"
        where = "" if self.command == "policy check" else f", said by `{self.command}`"
        yield f"{level}{where}. {_ORIGINS[self.origin]}"
        yield f"`--fix` {self.fix}." if self.fix else "`--fix` does not change it."
        if not self.example:
            return
        before, after = self.example_text.splitlines(), self.mended_text.splitlines()
        yield from ("", "```yaml", *before, "```", "", "Mended:", "", "```diff")
        _, _, *changes = unified_diff(before, after, lineterm="", n=_SHOWN_BEFORE_AND_AFTER)
        yield from (line for line in changes if not line.startswith("@@"))
        yield "```"


@cache
def rule_pages() -> Mapping[Rule, RulePage]:
    """Return the page of every rule, in the order of the codes."""
    text = (files("reactive_desched.policy") / "rules.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    return {rule: convert({"rule": rule, **written[rule]}, RulePage) for rule in Rule}
