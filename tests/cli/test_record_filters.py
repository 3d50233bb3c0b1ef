import re

import pytest

from reactive_desched.cli import main
from reactive_desched.cli.record_filters import build_filter
from reactive_desched.errors import ConfigError


def test_an_unknown_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r'type "evicted" is unknown; it is one of .*eviction\.succeeded'
    ):
        build_filter({"type": ("evicted",)})


def test_an_empty_word_is_refused() -> None:
    assert build_filter({"node": ("n1,n2", "n3")}).nodes == ("n1", "n2", "n3")
    with pytest.raises(ConfigError, match="--node 'n1,' holds an empty word"):
        build_filter({"node": ("n1,",)})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reason", "DisruptionBudgets"], "did you mean DisruptionBudget?"),
        (
            ["--reason", "bogus"],
            r"it is one of BackingOff, .*; for one of another version, write --reason 'bogus\*'",
        ),
        (["--gate", "NodeFits"], "did you mean NodeFit?"),
        (["--plugin", "PodLifetimes"], "did you mean PodLifeTime?"),
    ],
)
def test_pending_refuses_names_that_there_are_not(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", *flags]) == 2
    assert re.search(message.replace("?", r"\?"), capsys.readouterr().err)


def test_an_unknown_reason_is_refused_and_a_pattern_is_not() -> None:
    with pytest.raises(ConfigError, match="did you mean NodeFitPending"):
        build_filter({"reason": ("NodeFitPendin",)})
    assert build_filter({"reason": ("Node*",)}).reasons == ("Node*",)
