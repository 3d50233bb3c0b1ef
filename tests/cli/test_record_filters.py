import pytest

from reactive_desched.cli.record_filters import wanted_by
from reactive_desched.errors import ConfigError


def test_an_unknown_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'evicted'; there are .*eviction\.succeeded"):
        wanted_by({"type": ("evicted",)})


def test_an_empty_word_is_refused() -> None:
    assert wanted_by({"node": ("n1,n2", "n3")}).nodes == ("n1", "n2", "n3")
    with pytest.raises(ConfigError, match="--node 'n1,' holds an empty word"):
        wanted_by({"node": ("n1,",)})
