"""What is promised of the record: one file per promise, each run in a process of its own."""
