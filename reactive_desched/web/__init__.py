"""What the controller shows over HTTP: health, metrics and events.

Import `serve_at` from `web.server` and `Health` from `web.health`.
"""
