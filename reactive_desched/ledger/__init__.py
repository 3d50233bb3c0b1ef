"""Every eviction from its decision until its replacement is Ready, and who takes part in it."""
