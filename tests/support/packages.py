"""Packages that offer something through entry points, in a folder, as an installer leaves them."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_package"]


def write_package(
    site: Path, group: str, offered: Mapping[str, str], code: str = "", name: str = "other"
) -> Path:
    """Write version 1.0 of a package of one module, `code`, that offers this; return the folder.

    `offered` has an object of the module, which is called as the package, for each name.
    """
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {name}:{found}" for key, found in offered.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    (site / f"{name}.py").write_text(code)
    return site
