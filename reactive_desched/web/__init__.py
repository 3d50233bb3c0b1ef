"""Serves health, metrics and events over HTTP.

Import `serve_at` from `web.server` and `Health` from `web.health`.
"""
