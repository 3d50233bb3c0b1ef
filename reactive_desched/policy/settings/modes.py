"""The settings of single profiles: what is done with what their plugins find."""

from collections.abc import Mapping

from pydantic import Field

from reactive_desched.api.args import Section
from reactive_desched.model.modes import Mode


class PluginSettings(Section):
    """The settings of one plugin in one profile."""

    mode: Mode | None = Field(
        default=None, description="The mode of this plugin; left out: that of its profile."
    )


class ProfileSettings(Section):
    """The settings of one profile of the policy."""

    mode: Mode | None = Field(
        default=None,
        description="The mode of this profile's plugins; left out: that of all profiles.",
    )
    plugins: Mapping[str, PluginSettings] = Field(
        default={}, description="The same for single plugins of this profile, by name."
    )
