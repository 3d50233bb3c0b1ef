"""Writes proposals as messages for chats: a body that Slack's or Teams's webhooks take as it is.

What comes from a cluster or a policy stands in elements that render no markup: `plain_text` of
Slack, `TextRun` of Adaptive Cards. So no name can mention a person, be a link, or have a format.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from reactive_desched.model.approvals import short_id
from reactive_desched.text.counts import format_count

MAX_GROUPS_SHOWN: Final = 10
MAX_PODS_SHOWN: Final = 5

MAX_TITLE: Final = 140
MAX_TEXT: Final = 200
"""So many characters of a name or a finding are shown."""

MAX_BODY_BYTES: Final = 20_000
"""Below the 28 KB of Teams, which counts some fifth more than what it was sent."""

_SPACES: Final = str.maketrans("&<>", "   ")

Form = Mapping[str, Any]  # JSON


class ProposedPods(Struct, frozen=True):
    """The proposals of one plugin on the pods of one node; `pods` are some of `total`."""

    id: str
    profile: str
    plugin: str
    node: str
    finding: str
    total: int
    pods: tuple[str, ...]


def encode(form: str, title: str, groups: Sequence[ProposedPods]) -> bytes:
    """Return a message as JSON, with as many groups as it takes; the others are counted.

    `form` is a key of `MESSAGES`.
    """
    heading = _line(title.translate(_SPACES), MAX_TITLE)
    shown = [*groups[:MAX_GROUPS_SHOWN]]
    while True:
        last = "All of them, with the id of each pod: reactive-desched proposals -o wide"
        if more := len(groups) - len(shown):
            last = f"{format_count(more, 'more group')}. {last}"
        message = MESSAGES[form](heading, [*map(_describe, shown), last])
        body = json.dumps(message, ensure_ascii=False).encode()
        if len(body) <= MAX_BODY_BYTES or not shown:
            return body
        shown.pop()


def _slack_message(title: str, paragraphs: Sequence[str]) -> Form:
    """Return the body for an incoming webhook of Slack: blocks, and a text for notifications."""
    texts = [*map(_escape, paragraphs)]
    return {
        "text": title,
        "blocks": [
            {"type": "header", "text": _plain(title)},
            *({"type": "section", "text": _plain(text)} for text in texts),
        ],
    }


def _teams_message(title: str, paragraphs: Sequence[str]) -> Form:
    """Return the body for a webhook of Teams's Workflows: an Adaptive Card, which they post."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": [_text_run(title, size="Large", weight="Bolder"), *map(_text_run, paragraphs)],
        "msteams": {"width": "Full"},
    }
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


MESSAGES: Final[Mapping[str, Callable[[str, Sequence[str]], Form]]] = {
    "slack": _slack_message,
    "teams": _teams_message,
}
"""The form of a message, by the name that settings give it."""


def _describe(group: ProposedPods) -> str:
    """Say what is proposed, why, and how to answer it."""
    some = group.pods[:MAX_PODS_SHOWN]
    names = ", ".join(_line(name) for name in some)
    more = group.total - len(some)
    pods = f"{names} and {more:,} more" if more > 0 else names
    place = f"on node {_line(group.node)}" if group.node else "on no node"
    count = format_count(group.total, "pod")
    name = short_id(group.id)
    return "\n".join(
        (
            f"{count} {place}: {_line(group.finding)}",
            f"by {_line(group.plugin)} of profile {_line(group.profile)}: {pods}",
            f"reactive-desched approve --group {name}",
            f"reactive-desched reject --group {name} --because TEXT",
        )
    )


def _line(text: str, limit: int = MAX_TEXT) -> str:
    """Return a text on one line, without what no one sees, cut to a length."""
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _escape(text: str) -> str:
    """Replace the three characters that Slack reads as its own in every text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> Form:
    return {"type": "plain_text", "text": text, "emoji": False}


def _text_run(text: str, **style: str) -> Form:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
