"""Whether a valid policy can run: some plugins can be configured before they are built."""

from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.policy.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.registry import SUPPORTED_POINTS, Registry
from reactive_desched.policy.source_location import SourceLocation

_HINT: Final = "take it out, or wait for a version that has it; the rest of the policy can run"


def find_unimplemented(
    policy: SourceLocation, registry: Registry
) -> Iterator[tuple[str, Diagnostic]]:
    """Name each plugin a policy enables that is not built yet, and say so where it does."""
    for profile in policy.below("profiles").items():
        for point in SUPPORTED_POINTS:
            for name, at in profile.below("plugins", point, "enabled").texts():
                spec = registry.get(name)
                if spec is not None and not spec.is_implemented:
                    message = f"{name} can be checked, but not run yet by this version"
                    yield name, at.diagnostic(message, _HINT)


def require_runnable(unimplemented: Sequence[Diagnostic]) -> None:
    """Refuse a policy that enables what is not built, by what was said of it while reading.

    Raises PolicyErrors.
    """
    if unimplemented:
        raise PolicyErrors(unimplemented)
