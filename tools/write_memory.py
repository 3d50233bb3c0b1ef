"""Writes the memory that the manifests and the chart request and allow, and the page on it."""

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
    request_mib,
)

ROOT: Final = Path(__file__).resolve().parents[1]
MANIFESTS: Final = (
    ROOT / "deploy/controller/deployment.yaml",
    ROOT / "deploy/cronjob/cronjob.yaml",
    ROOT / "deploy/job/job.yaml",
    ROOT / "deploy/charts/reactive-desched/values.yaml",
)
PAGE: Final = ROOT / "docs/reference/memory.md"
_REQUEST: Final = re.compile(r"(requests:\s*\n\s+cpu: \S+\s*\n\s+memory: )\S+")
_LIMIT: Final = re.compile(r"(limits:\s*\n\s+memory: )\S+")

_TEMPLATE: Final = ROOT / "tools/memory.md.template"


def page() -> str:
    """Return the page on memory."""
    rows = "\n".join(
        f"| {size.nodes:,} | {size.pods:,} | {needed_mb(size):.0f} MB | {request_mib(size)}Mi |"
        f" {limit_mib(size)}Mi |"
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
        request=request_mib(ADVERTISED),
        limit=limit_mib(ADVERTISED),
        margin=MARGIN,
    )


def with_memory(manifest: str) -> str:
    """Return a manifest with the memory request and limit of the advertised size."""
    amounts = (_REQUEST, request_mib(ADVERTISED)), (_LIMIT, limit_mib(ADVERTISED))
    for place, mib in amounts:
        manifest, count = place.subn(rf"\g<1>{mib}Mi", manifest)
        assert count == 1, "a manifest has one request and one limit of memory"
    return manifest


def main() -> None:
    """Write the page, the requests and the limits."""
    PAGE.write_text(page(), encoding="utf-8")
    for file in MANIFESTS:
        file.write_text(with_memory(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
