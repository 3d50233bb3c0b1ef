"""One file per thing we promise: each drives the wired application and returns plain numbers."""
