"""One pass over a snapshot by the rules of upstream's cycle."""
