"""Keeps which client owns which field: managedFields, and server-side apply."""
