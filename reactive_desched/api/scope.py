"""Which pods a plugin is asked to look at: arguments that most plugins share."""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from reactive_desched.api.plugin import PluginArgs
from reactive_desched.model.labels import LabelSelector, selector_from
from reactive_desched.model.objects import Pod


class Namespaces(BaseModel):
    """Exact namespace names; one of the two lists at most."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    include: tuple[str, ...] = Field(default=(), description="Look only at these namespaces.")
    exclude: tuple[str, ...] = Field(default=(), description="Look at all but these namespaces.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("only one of Include/Exclude namespaces can be set")
        return self


class ScopedArgs(PluginArgs):
    """Arguments of a plugin that can be limited to namespaces and labels."""

    namespaces: Namespaces = Field(
        default=Namespaces(), description="The namespaces to look at; all when left out."
    )
    label_selector: Annotated[LabelSelector, BeforeValidator(selector_from)] | None = Field(
        default=None, description="Look only at pods with matching labels."
    )

    def covers(self, pod: Pod) -> bool:
        """Say whether the pod is one the plugin was asked to look at."""
        wanted = self.namespaces
        if wanted.include and pod.namespace not in wanted.include:
            return False
        if wanted.exclude and pod.namespace in wanted.exclude:
            return False
        return self.label_selector is None or self.label_selector.matches(pod.labels)
