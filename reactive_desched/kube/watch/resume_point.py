"""Where we are in the server's history, and what we think of a server that goes back in it."""

__all__ = ["ResumePoint", "is_older"]

_ACCEPT_AFTER_REJECTIONS = 2


class ResumePoint:
    """The resource version to resume from; empty when only a new list can help."""

    def __init__(self) -> None:
        self.resource_version = ""
        self._newest = ""
        self._rejections = 0

    @property
    def can_resume(self) -> bool:
        """Whether there is anything to resume from."""
        return bool(self.resource_version)

    def reset(self) -> None:
        """Forget where to resume, but not how far the history had come."""
        self._newest = self.resource_version or self._newest
        self.resource_version = ""

    def accepts(self, version: str) -> bool:
        """Say whether a list of this version may replace the picture.

        One that is older than what was seen comes from a replica that lags; asking again helps.
        After two refusals it is believed: the server was restored from a backup.
        """
        if is_older(version, self._newest) and self._rejections < _ACCEPT_AFTER_REJECTIONS:
            self._rejections += 1
            return False
        self._rejections = 0
        return True

    def at_list(self, version: str) -> None:
        """Stand at the version of a list that is now our picture."""
        self.resource_version = self._newest = version

    def at_bookmark(self, version: str) -> None:
        """Move on without an object: nothing of ours happened up to this version."""
        if version and not is_older(version, self.resource_version):
            self.resource_version = version


def is_older(version: str, than: str) -> bool:
    """Compare two versions as numbers; what is no number is never older."""
    if len(version) != len(than):
        return len(version) < len(than) and version.isdecimal() and than.isdecimal()
    return version < than and version.isdecimal() and than.isdecimal()
