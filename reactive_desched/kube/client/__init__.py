"""Requests to the API server: the session, its limits, the eviction call and Events."""
