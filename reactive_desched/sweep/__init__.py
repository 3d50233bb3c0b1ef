"""One pass over a picture that stands still, by the rules of upstream's cycle."""
