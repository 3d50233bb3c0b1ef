"""Where we are in the server's history, and what we think of a server that goes back in it."""

__all__ = ["Place", "older"]

_BELIEVED_AFTER = 2


class Place:
    """The resource version to resume from; empty when only a new list can help."""

    def __init__(self) -> None:
        self.version = ""
        self._newest = ""
        self._doubted = 0

    @property
    def known(self) -> bool:
        """Whether there is anything to resume from."""
        return bool(self.version)

    def lose(self) -> None:
        """Forget where to resume, but not how far the history had come."""
        self._newest = self.version or self._newest
        self.version = ""

    def believes(self, listed: str) -> bool:
        """Say whether a list of this version may replace the picture.

        One that is older than what was seen comes from a replica that lags; asking again helps.
        After two refusals it is believed: the server was restored from a backup.
        """
        if older(listed, self._newest) and self._doubted < _BELIEVED_AFTER:
            self._doubted += 1
            return False
        self._doubted = 0
        return True

    def listed(self, version: str) -> None:
        """Stand at the version of a list that is now our picture."""
        self.version = self._newest = version

    def bookmarked(self, version: str) -> None:
        """Move on without an object: nothing of ours happened up to this version."""
        if version and not older(version, self.version):
            self.version = version


def older(version: str, than: str) -> bool:
    """Compare two versions as numbers; what is no number is never older."""
    if len(version) != len(than):
        return len(version) < len(than) and version.isdecimal() and than.isdecimal()
    return version < than and version.isdecimal() and than.isdecimal()
