"""Checks whether a valid policy can run: some plugins can be configured before they are built."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.registry import SUPPORTED_POINTS, Registry
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.yaml.source_location import SourceLocation

_HINT: Final = "remove it from the policy, or upgrade to a version that has it"


def find_unimplemented(policy: SourceLocation, registry: Registry) -> Iterator[Diagnostic]:
    """Yield an error for each place where a policy enables a plugin that is not built yet."""
    for profile in policy.below("profiles").items():
        for point in SUPPORTED_POINTS:
            for name, at in profile.below("plugins", point, "enabled").texts():
                spec = registry.get(name)
                if spec is not None and not spec.is_implemented:
                    yield at.diagnostic(
                        f"this version cannot run {name} yet", _HINT, rule=Rule.PLUGIN_NOT_BUILT
                    )


def require_runnable(configuration: Configuration) -> None:
    """Raise PolicyErrors for a policy that enables a plugin which this version does not have."""
    if configuration.unimplemented:
        texts = {source.name: source.text for source in configuration.sources}
        raise PolicyErrors(configuration.unimplemented, texts=texts)
