"""One profile for strategies that protect the same pods, as a person would write it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from reactive_desched.policy.convert.draft import Block, Draft, DraftPart, Leaf, text_leaf
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.yaml.tree import PlainValue

_MERGED_NAME: Final = "default"
_POINTS: Final = ("filter", "preevictionfilter", "deschedule", "balance")


def merge_profiles(policy: Draft, profiles: Sequence[Profile]) -> Draft:
    """Join the profiles whose evictor settings are equal; `profiles` are what they come to.

    A joined profile stands where its first one stood, and is named default, then default-2.
    """
    part = policy.part("profiles") if isinstance(policy, Block) else None
    if not isinstance(policy, Block) or part is None or not isinstance(part.value, Block):
        return policy
    joined = tuple(_merge_groups(part.value.parts, profiles))
    new = replace(part, value=replace(part.value, parts=joined))
    return replace(policy, parts=tuple(new if each is part else each for each in policy.parts))


def _merge_groups(parts: Sequence[DraftPart], profiles: Sequence[Profile]) -> Iterator[DraftPart]:
    """Return one part for each group of equal evictor settings."""
    count = 0
    for group in _group_by_evictor(parts, profiles):
        count += len(group) > 1
        name = _MERGED_NAME if count == 1 else f"{_MERGED_NAME}-{count}"
        yield group[0] if len(group) == 1 else _merged_profile(name, [it.value for it in group])


def _group_by_evictor(
    parts: Sequence[DraftPart], profiles: Sequence[Profile]
) -> Sequence[list[DraftPart]]:
    groups: list[tuple[object, list[DraftPart]]] = []
    for part, profile in zip(parts, profiles, strict=True):
        same = next((group for evictor, group in groups if evictor == profile.evictor), None)
        if same is None:
            groups.append((profile.evictor, same := []))
        same.append(part)
    return [group for _, group in groups]


def _merged_profile(name: str, drafts: Sequence[Draft]) -> DraftPart:
    """Write one profile for several."""
    blocks = [draft for draft in drafts if isinstance(draft, Block)]
    configs = [each for block in blocks for each in _items(block.get("pluginConfig"))]
    evictor = [each for each in configs if _name_of(each) == DEFAULT_EVICTOR][:1]
    rest = [each for each in configs if _name_of(each) != DEFAULT_EVICTOR]
    plugins = [block.get("plugins") for block in blocks]
    return DraftPart(
        None,
        Block(
            (
                DraftPart("name", text_leaf(name)),
                DraftPart("pluginConfig", Block((*evictor, *rest), is_list=True)),
                DraftPart("plugins", Block(tuple(_merged_points(plugins)))),
            )
        ),
    )


def _merged_points(plugins: Sequence[Draft | None]) -> Iterator[DraftPart]:
    """Enable at each point what is enabled there in any profile, each plugin once."""
    for point in _POINTS:
        sections = [each.get(point) for each in plugins if isinstance(each, Block)]
        enabled = {
            _text(item): item
            for section in reversed(sections)
            if isinstance(section, Block)
            for item in reversed(_items(section.get("enabled")))
        }
        names = tuple(reversed(enabled.values()))
        if names:
            yield DraftPart(point, Block((DraftPart("enabled", Block(names, is_list=True)),)))


def _items(draft: Draft | None) -> tuple[DraftPart, ...]:
    return draft.parts if isinstance(draft, Block) else ()


def _text(part: DraftPart) -> str:
    return part.value.text if isinstance(part.value, Leaf) else ""


def _name_of(part: DraftPart) -> PlainValue:
    return part.value.scalar_value("name") if isinstance(part.value, Block) else None
