"""The composition root: what a command line and files say becomes a running controller."""
