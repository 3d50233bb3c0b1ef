"""The HTTP face of the simulated API server."""
