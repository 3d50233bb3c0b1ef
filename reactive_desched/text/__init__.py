"""Text that is made for people: columns, times, durations, counts with their nouns."""
