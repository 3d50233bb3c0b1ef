"""Whether a sound policy can run: some plugins can be configured before they are built."""

from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.policy.diagnostics import PolicyErrors, Problem
from reactive_desched.policy.registry import READ_POINTS, Registry
from reactive_desched.policy.source_location import Place

_HINT: Final = "take it out, or wait for a version that has it; the rest of the policy can run"


def unbuilt(policy: Place, registry: Registry) -> Iterator[tuple[str, Problem]]:
    """Name each plugin a policy enables that is not built yet, and say so where it does."""
    for profile in policy.below("profiles").items():
        for point in READ_POINTS:
            for name, at in profile.below("plugins", point, "enabled").words():
                spec = registry.get(name)
                if spec is not None and not spec.is_built:
                    message = f"{name} can be checked, but not run yet by this version"
                    yield name, at.problem(message, _HINT)


def require_runnable(unbuilt: Sequence[Problem]) -> None:
    """Refuse a policy that enables what is not built, by what was said of it while reading.

    Raises PolicyErrors.
    """
    if unbuilt:
        raise PolicyErrors(unbuilt)
