"""Checks messages by the rules that Slack and Microsoft document for their incoming webhooks."""

from typing import Any

TEAMS_BYTES = 28 * 1024


def slack_faults(body: Any, size: int) -> list[str]:
    """Return which documented rule a body of an incoming webhook of Slack breaks."""
    assert size > 0
    faults = [f"{key}: unknown" for key in body.keys() - {"text", "blocks"}]
    if not body.get("text"):
        faults.append("text: needed beside blocks, for notifications")
    faults += _control_signs("text", body.get("text", ""))
    blocks = body["blocks"]
    if not 1 <= len(blocks) <= 50:
        faults.append("blocks: 1 to 50")
    for block in blocks:
        limit = {"header": 150, "section": 3000}.get(block["type"])
        text = block["text"]
        if limit is None or block.keys() != {"type", "text"}:
            faults.append(f"block: {block}")
        elif text["type"] != "plain_text" or text["emoji"] is not False:
            faults.append(f"text object with markup: {text}")
        elif not 1 <= len(text["text"]) <= limit:
            faults.append(f"{block['type']}: {len(text['text'])} characters")
        faults += _control_signs(block["type"], text["text"])
    return faults


def _control_signs(place: str, text: str) -> list[str]:
    bare = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
    return [f"{place}: {sign} is not escaped" for sign in "&<>" if sign in bare]


def teams_faults(body: Any, size: int) -> list[str]:
    """Return which documented rule a body for a webhook of Teams's Workflows breaks."""
    faults = [] if size <= TEAMS_BYTES else [f"{size} bytes"]
    if body.keys() != {"type", "attachments"} or body["type"] != "message":
        faults.append("it is no message with attachments")
    for attachment in body["attachments"]:
        if attachment["contentType"] != "application/vnd.microsoft.card.adaptive":
            faults.append("not an Adaptive Card: a MessageCard is not taken any more")
        if attachment["contentUrl"] is not None:
            faults.append("contentUrl: null")
        faults += _card_faults(attachment["content"])
    return faults


def _card_faults(card: Any) -> list[str]:
    faults = []
    if card["type"] != "AdaptiveCard" or card["version"] not in ("1.2", "1.3", "1.4", "1.5"):
        faults.append("type and version of the card")
    if card["$schema"] != "http://adaptivecards.io/schemas/adaptive-card.json":
        faults.append("$schema")
    if "entities" in card.get("msteams", {}):
        faults.append("it may mention people")
    for element in card["body"]:
        if element["type"] != "RichTextBlock" or element.keys() != {"type", "inlines"}:
            faults.append(f"an element that renders Markdown: {element}")
        for run in element["inlines"]:
            if run["type"] != "TextRun" or not run["text"]:
                faults.append(f"no run of text: {run}")
            if run.keys() - {"type", "text", "size", "weight"}:
                faults.append(f"a run that is more than text: {run}")
    return faults


RULES = {"slack": slack_faults, "teams": teams_faults}
