"""The cluster edge: credentials, raw requests, the list-watch loop and the eviction call."""
