"""List and watch one resource, resume after errors, and detect missed deletions."""
