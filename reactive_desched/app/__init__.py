"""The composition root: command line and files to a running controller."""
