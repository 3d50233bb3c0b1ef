"""Gets the real parts of the end-to-end tests: `build.py` is the command."""
