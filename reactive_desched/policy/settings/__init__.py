"""The settings that a DeschedulerPolicy does not have: one module a section."""
