"""Keeps what the controller saw, so that any moment can be looked at again."""
