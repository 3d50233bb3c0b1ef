"""One formula says how much memory is taken, and the limits that are shipped allow it."""

import re

import pytest

from tools import memory, write_memory
from tools.memory import ADVERTISED, CACHES_MB, SIZES, limit_mib, needed_mb, request_mib

ROOT = write_memory.ROOT


@pytest.mark.parametrize("file", write_memory.MANIFESTS, ids=lambda file: file.stem)
def test_every_manifest_has_the_request_and_the_limit_of_the_advertised_size(file: object) -> None:
    text = file.read_text(encoding="utf-8")  # type: ignore[attr-defined]  # it is a path

    assert f"memory: {limit_mib(ADVERTISED)}Mi" in text
    assert f"memory: {request_mib(ADVERTISED)}Mi" in text
    assert write_memory.with_memory(text) == text


def test_what_is_requested_holds_all_but_the_caches_and_is_below_the_limit() -> None:
    for size in SIZES:
        assert memory.MARGIN * (needed_mb(size) - CACHES_MB) * 1e6 <= request_mib(size) * (1 << 20)
        assert request_mib(size) < limit_mib(size)


def test_every_limit_leaves_a_margin_above_what_is_needed() -> None:
    for size in SIZES:
        assert limit_mib(size) * (1 << 20) >= memory.MARGIN * needed_mb(size) * 1e6


def test_the_advertised_size_is_the_one_that_the_documentation_measures() -> None:
    page = (ROOT / "docs/explain/performance.md").read_text(encoding="utf-8")

    assert f"{ADVERTISED.nodes:,} nodes and {ADVERTISED.pods:,} pods" in page


@pytest.mark.parametrize(
    "manifest",
    [
        "resources: {}",
        "resources:\n  limits:\n    memory: 1Mi\n",
        "resources:\n  requests:\n    cpu: 1\n    memory: 1Mi\n",
    ],
)
def test_a_manifest_without_a_request_or_a_limit_is_refused(manifest: str) -> None:
    with pytest.raises(AssertionError):
        write_memory.with_memory(manifest)
    assert re.search(r"limits:\n +memory: \d+Mi", write_memory.MANIFESTS[0].read_text("utf-8"))
