"""One file per plugin; they do not know each other."""
