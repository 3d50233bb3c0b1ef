"""One formula says how much memory is taken, and the limits that are shipped allow it."""

import re

import pytest

from tools import memory, write_memory
from tools.memory import ADVERTISED, SIZES, limit_mib, needed_mb

ROOT = write_memory.ROOT


@pytest.mark.parametrize("file", write_memory.MANIFESTS, ids=lambda file: file.stem)
def test_every_manifest_has_the_limit_of_the_advertised_size(file: object) -> None:
    text = file.read_text(encoding="utf-8")  # type: ignore[attr-defined]  # it is a path

    assert f"memory: {limit_mib(ADVERTISED)}Mi" in text


def test_every_limit_leaves_a_margin_above_what_is_needed() -> None:
    for size in SIZES:
        assert limit_mib(size) * (1 << 20) >= memory.MARGIN * needed_mb(size) * 1e6


def test_the_advertised_size_is_the_one_that_the_documentation_measures() -> None:
    page = (ROOT / "docs/explain/performance.md").read_text(encoding="utf-8")

    assert f"{ADVERTISED.nodes:,} nodes and {ADVERTISED.pods:,} pods" in page


def test_a_manifest_without_a_limit_is_refused() -> None:
    with pytest.raises(AssertionError):
        write_memory.with_limit("resources: {}")
    assert re.search(r"limits:\n +memory: \d+Mi", write_memory.MANIFESTS[0].read_text("utf-8"))
