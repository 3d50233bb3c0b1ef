"""One file per plugin; they do not know each other. `registry` lists those built in."""
