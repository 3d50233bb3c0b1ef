import pytest

from reactive_desched.cli import main
from reactive_desched.cli.record_filters import build_filter
from reactive_desched.errors import ConfigError
from tests.support.golden import Golden


def test_an_unknown_type_is_refused_with_those_there_are(golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        build_filter({"type": ("evicted",)})

    start, _, names = str(caught.value).partition("one of ")
    assert start + "one of" == golden()
    assert "eviction.succeeded" in names.split(", ")


def test_an_empty_word_is_refused() -> None:
    assert build_filter({"node": ("n1,n2", "n3")}).nodes == ("n1", "n2", "n3")
    with pytest.raises(ConfigError, match="--node 'n1,' holds an empty word"):
        build_filter({"node": ("n1,",)})


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--reason", "DisruptionBudgets"], id="--reason DisruptionBudgets"),
        pytest.param(["--reason", "bogus"], id="--reason bogus"),
        pytest.param(["--gate", "NodeFits"], id="--gate NodeFits"),
        pytest.param(["--plugin", "PodLifetimes"], id="--plugin PodLifetimes"),
    ],
)
def test_pending_refuses_names_that_there_are_not(
    flags: list[str], golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", *flags]) == 2
    assert golden() in capsys.readouterr().err


def test_pending_says_how_to_write_a_reason_of_another_version(
    golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", "--reason", "bogus"]) == 2
    assert golden() in capsys.readouterr().err


def test_an_unknown_reason_is_refused_and_a_pattern_is_not() -> None:
    with pytest.raises(ConfigError, match="did you mean NodeFitPending"):
        build_filter({"reason": ("NodeFitPendin",)})
    assert build_filter({"reason": ("Node*",)}).reasons == ("Node*",)
    assert build_filter({"reason": ("TerminationByKubelet",)}).reasons == ("TerminationByKubelet",)
