"""The version, alone in a file so that build tools and the User-Agent read the same text."""

__version__ = "0.1.0"
