"""What the reader says of policies, word for word: people use these messages.

After a change of words, `make generated` writes the files again.
"""

import pytest

from tests.support.policy_messages import TOPICS, MessageCase, cases, said_of


@pytest.mark.parametrize(
    ("topic", "case"),
    [
        pytest.param(topic, case, id=f"{topic}: {case.name}")
        for topic in TOPICS
        for case in cases(topic)
    ],
)
def test_the_reader_says_of_a_policy_what_its_file_holds(topic: str, case: MessageCase) -> None:
    assert said_of(topic, case.text) == case.messages
