"""What the reader says of policies, word for word, in files that one command writes again.

Each file of `tests/policy/messages` holds cases: `=== NAME`, the text of a policy or a part of one,
and a line `--> MESSAGE` for each error or warning. Run as a program, this writes all messages as
they are now.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import golden_parts
from tests.support.koordinator_files import KOORDINATOR_HEAD, migration_controller
from tests.support.legacy_policies import LEGACY_HEADER, TAINTS
from tests.support.small_plugins import HEAD, REGISTRY, policy_with_args

__all__ = ["FOLDER", "TOPICS", "MessageCase", "cases", "said_of", "with_messages"]

FOLDER: Final = Path(__file__).parents[1] / "policy" / "messages"
TOPICS: Final[dict[str, Callable[[str], str]]] = {
    "arguments": partial(policy_with_args, TAINTS),
    "documents": str,
    "evictor": partial(policy_with_args, "DefaultEvictor"),
    "koordinator": KOORDINATOR_HEAD.__add__,
    "migration-controller": migration_controller,
    "policy": HEAD.__add__,
    "profiles": HEAD.__add__,
    "v1alpha1": LEGACY_HEADER.__add__,
    "v1alpha1-unread-keys": LEGACY_HEADER.__add__,
    "v1alpha1-warnings": LEGACY_HEADER.__add__,
    "warnings": HEAD.__add__,
}
"""Each file, by its name, and what makes a whole policy of a text in it."""

KOORDINATORS: Final = ("koordinator", "migration-controller")
"""The files of which it is also said what keeps a valid text from running."""

_MESSAGE: Final = "--> "


class MessageCase(Struct, frozen=True):
    """A policy, or a part of one, and the messages about it."""

    name: str
    text: str
    messages: tuple[str, ...]


def cases(topic: str) -> Iterator[MessageCase]:
    """Yield the cases of a file, in its order."""
    for name, part in golden_parts(FOLDER / f"{topic}.txt"):
        lines = part.split("\n")
        messages = [line.removeprefix(_MESSAGE) for line in lines if line.startswith(_MESSAGE)]
        text = [line for line in lines if not line.startswith(_MESSAGE)]
        yield MessageCase(name, "\n".join(text).rstrip("\n") + "\n", tuple(messages))


def said_of(topic: str, text: str) -> tuple[str, ...]:
    """Return the errors about a text, or else its warnings."""
    if topic in KOORDINATORS:
        result = check_source(SourceText(TOPICS[topic](text), "p.yaml"), plugin_registry())
        return tuple(map(str, result.errors or result.warnings))
    is_small = not topic.startswith("v1alpha1")
    registry = REGISTRY if is_small else plugin_registry()
    try:
        read = load_sources([SourceText(TOPICS[topic](text), "p.yaml")], registry)
    except PolicyErrors as errors:
        return tuple(str(errors).splitlines())
    return tuple(map(str, read.warnings))


def with_messages(topic: str, of: Sequence[MessageCase]) -> str:
    """Return the text of a file with the messages as they are now."""
    parts = [
        f"=== {each.name}\n{each.text}"
        + "".join(f"{_MESSAGE}{message}\n" for message in said_of(topic, each.text))
        for each in of
    ]
    return "\n".join(parts)


def main() -> None:
    """Write every file again."""
    for topic in TOPICS:
        written = with_messages(topic, list(cases(topic)))
        (FOLDER / f"{topic}.txt").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
