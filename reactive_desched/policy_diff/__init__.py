"""The `policy diff` command: what each of two policies would have done over a recorded time."""
