"""What the controller shows over HTTP: health and metrics.

Import `serve` from `web.server` and `Health` from `web.health`.
"""
