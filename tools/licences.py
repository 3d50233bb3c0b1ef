"""Checks the licences of what a release installs against those that its users may take for granted.

Licences come from an SBOM, as packages state them: SPDX expressions, or classifiers of older ones.
"""

from collections.abc import Iterator
from typing import Any, Final

from license_expression import ExpressionError, LicenseExpression, get_spdx_licensing

Sbom = dict[str, Any]  # CycloneDX as JSON

ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # its files stay as they are: nothing here changes them
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
        "Dual License",  # of python-dateutil: Apache-2.0 or BSD-3-Clause, as its classifiers say
        "License :: OSI Approved :: Apache Software License",
        "License :: OSI Approved :: BSD License",
        "License :: OSI Approved :: MIT License",
        "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
    }
)
_SPDX: Final = get_spdx_licensing()


def refusals(sbom: Sbom) -> Iterator[str]:
    """Yield a line for each package that states no licence, or one that is not allowed."""
    for component in sbom["components"]:
        package = f"{component['name']} {component['version']}"
        stated = [_text(each) for each in component.get("licenses", [])]
        if not stated:
            yield f"{package} states no licence"
        for licence in stated:
            if not _allows(licence):
                yield f"{package} has a licence that is not allowed: {licence}"


def _text(choice: dict[str, Any]) -> str:
    """Return the expression, the SPDX id or the words of one licence of a component."""
    if "expression" in choice:
        return str(choice["expression"])
    return str(choice["license"].get("id") or choice["license"]["name"])


def _allows(licence: str) -> bool:
    """Say whether a licence is allowed: one side of an OR is enough, both sides of an AND must."""
    if licence in ALLOWED:
        return True
    try:
        return _holds(_SPDX.parse(licence, validate=True))
    except ExpressionError:
        return False


def _holds(part: LicenseExpression) -> bool:
    if isinstance(part, _SPDX.OR):
        return any(map(_holds, part.args))
    if isinstance(part, _SPDX.AND):
        return all(map(_holds, part.args))
    return str(part) in ALLOWED
