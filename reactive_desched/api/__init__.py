"""The contracts that outside packages rely on: plugins, sinks and usage sources, imported on use.

A reader of events (`api.event`) need not wait for pydantic, which takes a tenth of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from reactive_desched.api.args import PluginArgs
    from reactive_desched.api.balance_plugin import BalancePlugin
    from reactive_desched.api.plugin import DeschedulePlugin, Plugin, PodPlugin, View
    from reactive_desched.api.scope import Namespaces, ScopedArgs
    from reactive_desched.api.sink import SinkPlugin, SinkSection
    from reactive_desched.api.usage_source import UsagePlugin, UsageSourceSettings

__all__ = [
    "BalancePlugin",
    "DeschedulePlugin",
    "Namespaces",
    "Plugin",
    "PluginArgs",
    "PodPlugin",
    "ScopedArgs",
    "SinkPlugin",
    "SinkSection",
    "UsagePlugin",
    "UsageSourceSettings",
    "View",
]

_MODULES: Final = {
    "BalancePlugin": "balance_plugin",
    "DeschedulePlugin": "plugin",
    "Namespaces": "scope",
    "PodPlugin": "plugin",
    "Plugin": "plugin",
    "PluginArgs": "args",
    "ScopedArgs": "scope",
    "SinkPlugin": "sink",
    "SinkSection": "sink",
    "UsagePlugin": "usage_source",
    "UsageSourceSettings": "usage_source",
    "View": "plugin",
}


def __getattr__(name: str) -> Any:  # Any: classes of several kinds
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
