import pytest

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
