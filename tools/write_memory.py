"""Writes the memory limits of the manifests and the chart, and the page that explains them."""

import re
from pathlib import Path
from typing import Final

from tools.memory import (
    ADVERTISED,
    BASE_MB,
    BYTES_PER_NODE,
    BYTES_PER_POD,
    CACHES_MB,
    MARGIN,
    SIZES,
    limit_mib,
    needed_mb,
)

ROOT: Final = Path(__file__).resolve().parents[1]
MANIFESTS: Final = (
    ROOT / "deploy/controller/deployment.yaml",
    ROOT / "deploy/cronjob/cronjob.yaml",
    ROOT / "deploy/job/job.yaml",
    ROOT / "deploy/charts/reactive-desched/values.yaml",
)
PAGE: Final = ROOT / "docs/reference/memory.md"
_LIMIT: Final = re.compile(r"(limits:\s*\n\s+memory: )\S+")

_TEMPLATE: Final = ROOT / "tools/memory.md.template"


def page() -> str:
    """Return the page on memory."""
    rows = "\n".join(
        f"| {size.nodes:,} | {size.pods:,} | {needed_mb(size):.0f} MB | {limit_mib(size)}Mi |"
        for size in SIZES
    )
    return _TEMPLATE.read_text(encoding="utf-8").format(
        base=BASE_MB,
        pod=f"{BYTES_PER_POD / 1000:g}",
        node=f"{BYTES_PER_NODE / 1000:g}",
        caches=CACHES_MB,
        rows=rows,
        nodes=ADVERTISED.nodes,
        pods=ADVERTISED.pods,
        limit=limit_mib(ADVERTISED),
        margin=MARGIN,
    )


def with_limit(manifest: str) -> str:
    """Return a manifest with the memory limit of the advertised size."""
    written, count = _LIMIT.subn(rf"\g<1>{limit_mib(ADVERTISED)}Mi", manifest)
    assert count == 1, "a manifest has one limit of memory"
    return written


def main() -> None:
    """Write the page and the limits."""
    PAGE.write_text(page(), encoding="utf-8")
    for file in MANIFESTS:
        file.write_text(with_limit(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
