"""What outsiders may rely on: the plugin contract."""

from reactive_desched.api.places import PlacePlugin
from reactive_desched.api.plugin import Plugin, PluginArgs, View
from reactive_desched.api.scope import Namespaces, ScopedArgs

__all__ = ["Namespaces", "PlacePlugin", "Plugin", "PluginArgs", "ScopedArgs", "View"]
