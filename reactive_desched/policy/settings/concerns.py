"""Selects evictions for a schedule or a budget: by plugin, profile, namespace and node."""

from collections.abc import Iterator

from pydantic import Field

from reactive_desched.api.args import Section, SelectorText
from reactive_desched.api.possible_names import NamedOrSelectedNamespaces


class Concerns(Section):
    """The evictions that an entry of the settings is about: all, but for what it names.

    A namespace is named, or selected by its labels; of the rest all must hold.
    """

    plugins: tuple[str, ...] = Field(
        default=(), description="The plugins whose evictions count; all of them if empty."
    )
    profiles: tuple[str, ...] = Field(
        default=(),
        description="The profiles of the policy whose evictions count; all of them if empty.",
    )
    namespaces: NamedOrSelectedNamespaces = Field(
        default=(),
        description="The namespaces whose pods count, and those that `namespaceSelector` selects; "
        "all of them if neither is given.",
    )
    namespace_selector: SelectorText | None = Field(
        default=None, description="Labels of namespaces, such as `tier=gold,team in (a,b)`."
    )
    node_selector: SelectorText | None = Field(
        default=None,
        description="Labels of the nodes whose pods count, such as `pool=batch`; all nodes if left "
        "out.",
    )

    @property
    def has_places(self) -> bool:
        """Say whether it is about some namespaces or nodes only."""
        return self.names_namespaces or self.node_selector is not None

    @property
    def names_namespaces(self) -> bool:
        """Say whether it is about some namespaces only."""
        return bool(self.namespaces) or self.namespace_selector is not None

    @property
    def has_selectors(self) -> bool:
        """Say whether labels of namespaces or nodes decide."""
        return self.namespace_selector is not None or self.node_selector is not None

    @property
    def scope_exhausted(self) -> str:
        """The scope of pods that get the same answer, as a balance plugin goes by it."""
        if self.names_namespaces:
            return "" if self.node_selector is not None else "namespace"
        return "cluster" if self.node_selector is None else "node"

    def includes_all_of(self, other: "Concerns") -> bool:
        """Say whether each eviction that another one concerns is surely one of these."""
        return (
            _covers(self.plugins, other.plugins)
            and _covers(self.profiles, other.profiles)
            and (
                not self.names_namespaces
                or (
                    other.namespace_selector in (None, self.namespace_selector)
                    and other.names_namespaces
                    and {*other.namespaces} <= {*self.namespaces}
                )
            )
            and self.node_selector in (None, other.node_selector)
        )

    def describe_concerns(self) -> Iterator[str]:
        """Yield what it is about, for a person; nothing for all evictions."""
        if self.plugins:
            yield f"of {', '.join(self.plugins)}"
        if self.profiles:
            noun = "profile" if len(self.profiles) == 1 else "profiles"
            yield f"of {noun} {', '.join(self.profiles)}"
        if self.names_namespaces:
            is_one = len(self.namespaces) == 1 and self.namespace_selector is None
            names = f" {', '.join(self.namespaces)}" if self.namespaces else ""
            labels = f" with {self.namespace_selector}" if self.namespace_selector else ""
            both = " or" if names and labels else ""
            yield f"in {'namespace' if is_one else 'namespaces'}{names}{both}{labels}"
        if self.node_selector is not None:
            yield f"on nodes with {self.node_selector}"


def _covers(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not names or (bool(others) and {*others} <= {*names})
