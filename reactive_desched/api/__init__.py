"""What outsiders may rely on: the plugin contract."""

from reactive_desched.api.plugin import Plugin, PluginArgs, View

__all__ = ["Plugin", "PluginArgs", "View"]
