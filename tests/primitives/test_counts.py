import pytest

from reactive_desched.primitives.counts import format_count


@pytest.mark.parametrize(
    ("count", "verbs", "text"),
    [
        (0, (), "0 pods"),
        (1, (), "1 pod"),
        (2, (), "2 pods"),
        (1200, (), "1,200 pods"),
        (1, ("is", "are"), "1 pod is"),
        (2, ("is", "are"), "2 pods are"),
    ],
)
def test_one_is_singular_and_the_verb_agrees(count: int, verbs: tuple[str, ...], text: str) -> None:
    assert format_count(count, "pod", *verbs) == text
