"""Scripts that build and check what is around the package."""
