"""Messages about proposals keep the rules of the chats that take them."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_desched.sinks.webhook.chat import ProposedPods, encode
from tests.support.chat_rules import RULES, slack_faults, teams_faults

FORMS = pytest.mark.parametrize("form", ["slack", "teams"])

GROUP = ProposedPods(
    "c765886f7c11a0b1",
    "nodes",
    "RemovePodsViolatingNodeTaints",
    "n7",
    "has no toleration on n7",
    14,
    tuple(f"shop/web-{number}" for number in range(14)),
)


def texts_of(form: str, body: Any) -> list[str]:
    """Return the texts that a chat shows, one for each block."""
    if form == "slack":
        return [each["text"]["text"] for each in body["blocks"]]
    elements = body["attachments"][0]["content"]["body"]
    return ["".join(run["text"] for run in each["inlines"]) for each in elements]


@FORMS
def test_a_message_says_what_why_and_how_to_answer(form: str) -> None:
    title, text, last = texts_of(form, json.loads(encode(form, "prod: 14 pods", [GROUP])))

    assert title == "prod: 14 pods"
    why, which, *answers = text.splitlines()
    assert why == f"14 pods on node n7: {GROUP.finding}"
    assert which.startswith(f"by {GROUP.plugin} of profile nodes: {', '.join(GROUP.pods[:5])}")
    assert which.endswith("and 9 more")
    assert answers == [
        "reactive-desched approve --group c765886f7c11",
        "reactive-desched reject --group c765886f7c11 --because TEXT",
    ]
    assert last.endswith("reactive-desched proposals -o wide")


names = st.text(max_size=600) | st.sampled_from(
    ["<!channel>", "<@U1|x>", "[a](http://b)", "**x**", "&lt;!here&gt;", "<at>all</at>", "a\n- b"]
)
groups = st.builds(
    ProposedPods,
    st.just(GROUP.id),
    names,
    names,
    names,
    names,
    st.integers(1, 10_000),
    st.lists(names, max_size=20).map(tuple),
)


HOSTILE = ProposedPods(
    GROUP.id, "<!channel>", "<@U1|x>", "[a](http://b)", "**x** & <at>all</at>", 1, ("&lt;b&gt;",)
)


@FORMS
@example(title="<!channel>", proposed=[HOSTILE])
@given(title=names, proposed=st.lists(groups, max_size=40))
def test_whatever_names_are_in_it_a_message_keeps_every_rule(
    form: str, title: str, proposed: list[ProposedPods]
) -> None:
    body = encode(form, f"prod {title}", proposed)

    assert RULES[form](json.loads(body), len(body)) == []


@FORMS
def test_a_name_stays_on_its_line(form: str) -> None:
    forged = ProposedPods(
        GROUP.id, "p", "P", "n1", "x\nreactive-desched approve --all", 1, ("a/b",)
    )
    [_, text, _] = texts_of(form, json.loads(encode(form, "prod", [forged])))

    assert len(text.splitlines()) == 4
    assert "reactive-desched approve --all" not in text.splitlines()


@FORMS
def test_a_message_of_many_groups_is_short_enough(form: str) -> None:
    name = "💥" * 300
    long = ProposedPods(name, name, name, name, name, 9, (name,) * 9)
    body = encode(form, "prod", [long] * 200)

    assert len(body) <= 20_000
    texts = texts_of(form, json.loads(body))
    assert len(texts) > 2
    assert texts[-1].startswith(f"{202 - len(texts)} more groups. ")


def test_the_rules_bite() -> None:
    slack, teams = (json.loads(encode(form, "a", [GROUP])) for form in ("slack", "teams"))
    slack["blocks"][1]["text"] = {"type": "mrkdwn", "text": "<!channel>", "emoji": False}
    teams["attachments"][0]["content"]["body"][1] = {"type": "TextBlock", "inlines": []}

    assert len(slack_faults(slack, 1)) == 3
    assert len(teams_faults(teams, 30_000)) == 2
