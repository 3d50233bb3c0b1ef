"""Scripts that build and check things around the package."""
