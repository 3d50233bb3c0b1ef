"""Cuts texts of foreign objects to a length, with a mark: the API server bounds few of them."""

from typing import Final

MAX_NAME_CHARS: Final = 512
"""No name that the API server accepts by its rules is longer, nor is the name of an image."""

MAX_TEXT_CHARS: Final = 4096
"""Longer texts for people are cut and marked, so that no message makes a record too long."""

_DIGEST_CHARS: Final = 16
_MARK_CHARS: Final = 64


def truncate(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return the text, cut if it has more characters."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"


def escaped(text: str) -> str:
    """Return the text on one line, and nothing in it that a terminal takes for a command."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def shown(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return a text for people, of a length, on one line, and without commands to a terminal."""
    if len(text) <= limit and text.isprintable():
        return text
    return escaped(truncate(text, limit))


def bounded_name(text: str) -> str:
    """Return the name, escaped, and cut if it is too long; names cut differ where they did before.

    What it returns it returns again.
    """
    if len(text) <= MAX_NAME_CHARS:
        shown = escaped(text)
        if len(shown) <= MAX_NAME_CHARS:
            return shown
    from hashlib import sha256  # a short command needs none

    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    kept = escaped(text[:MAX_NAME_CHARS])[: MAX_NAME_CHARS - _MARK_CHARS]
    return f"{kept}… ({len(text)} characters, sha256 {digest})"


def printable(text: str) -> str:
    """Return a text without control characters, which a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)
