"""The simulated cluster: an API server, and the world behind it, in one process."""
