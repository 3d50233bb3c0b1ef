"""Arguments that most plugins share: the namespaces and labels of the pods that they judge."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from reactive_desched.api.args import (
    FieldError,
    PluginArgs,
    SelectorObject,
    exclusive_errors,
    field_error,
    raise_field_errors,
)
from reactive_desched.api.possible_names import NamespaceNames
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import LabelSelector, parse_label_selector
from reactive_desched.model.objects import Pod


class Namespaces(BaseModel):
    """Exact namespace names; one of the two lists at most."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    include: NamespaceNames = Field(default=(), description="Look only at these namespaces.")
    exclude: NamespaceNames = Field(default=(), description="Look at all but these namespaces.")

    @model_validator(mode="after")
    def _validate_exclusive(self) -> Self:
        raise_field_errors(exclusive_errors("include and exclude", self.include, self.exclude))
        return self

    def has(self, namespace: str) -> bool:
        """Say whether a namespace is one of those to look at."""
        if self.include and namespace not in self.include:
            return False
        return namespace not in self.exclude


class ExcludedNamespaces(BaseModel):
    """Exact namespace names to leave alone; their pods still count as use of a node."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    exclude: NamespaceNames = Field(default=(), description="Evict nothing from these namespaces.")
    include: tuple[str, ...] = Field(
        default=(), description="Not supported here: it must stay empty."
    )

    @field_validator("include")
    @classmethod
    def _validate_include_empty(cls, include: tuple[str, ...]) -> tuple[str, ...]:
        if include:
            message = "this plugin takes exclude alone"
            hint = "list the namespaces to leave alone under exclude"
            raise field_error(message, hint, rule=Rule.MISPLACED_FIELD)
        return include


class LabelledPods(PluginArgs):
    """Pods that may leave."""

    selector: SelectorObject | None = Field(
        default=None, description="The labels of a pod must match."
    )

    def warnings(self) -> Iterator[FieldError]:
        """Say that an entry without a selector chooses no pods."""
        if self.selector is None:
            message = "has no selector, so it does not count"
            yield FieldError(message, "write one, or remove the entry", rule=Rule.NO_EFFECT)


def may_leave(pod: Pod, namespaces: Namespaces, selected: Iterable[LabelledPods]) -> bool:
    """Say whether namespaces and selectors let a pod leave; without a selector any pod.

    As koordinator's balance plugins: an entry whose selector is left out does not count.
    """
    selectors = [each.selector for each in selected if each.selector is not None]
    if selectors and not any(each.matches(pod.labels) for each in selectors):
        return False
    return namespaces.has(pod.namespace)


class NamespacedArgs(PluginArgs):
    """Arguments of a plugin that can be limited to namespaces."""

    namespaces: Namespaces = Field(
        default=Namespaces.model_construct(),
        description="The namespaces to look at; all when left out.",
    )

    def covers(self, pod: Pod) -> bool:
        """Say whether the pod is one the plugin was asked to look at."""
        return self.namespaces.has(pod.namespace)


class ScopedArgs(NamespacedArgs):
    """Arguments of a plugin that can be limited to namespaces and labels."""

    label_selector: Annotated[LabelSelector, BeforeValidator(parse_label_selector)] | None = Field(
        default=None, description="Look only at pods with matching labels."
    )

    def covers(self, pod: Pod) -> bool:
        """Say whether the pod is one the plugin was asked to look at."""
        if not super().covers(pod):
            return False
        return self.label_selector is None or self.label_selector.matches(pod.labels)
