"""Writes counts with their nouns, as messages for people have them."""


def format_count(count: int, noun: str, *verbs: str) -> str:
    """Return a count with its noun: "1 pod", "1,200 pods".

    `verbs` are the verb after one and after several: "is" and "are" give "1 pod is", "2 pods are".
    """
    named = f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
    if not verbs:
        return named
    one, several = verbs
    return f"{named} {one if count == 1 else several}"
