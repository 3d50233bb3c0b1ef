"""What a gate says of a pod is shown to people, whatever the objects hold that it quotes."""

from reactive_desched.model.decisions import GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.testing.builders import pod

REASON = GateReason("Gate", "Reason", "A meaning.")
FINDING = Finding(pod("web", on="n1"), "Plugin", "wrong")


def test_a_message_has_a_length_and_no_command_to_a_terminal() -> None:
    quoted = "\x1b[2J\x9b2J\n\u202e" + "x" * 300_000
    for decision in (
        REASON.refuse(FINDING, f"needs {quoted}"),
        REASON.defer(FINDING, f"needs {quoted}", 5.0),
    ):
        assert decision.message.startswith("needs ")
        assert decision.message.isprintable()
        assert len(decision.message) < 10_000


def test_a_usual_message_stays_as_it_is() -> None:
    message = "0/5 nodes are available"

    assert REASON.refuse(FINDING, message).message is message
