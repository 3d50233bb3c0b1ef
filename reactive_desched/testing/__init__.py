"""For tests of plugins, of this package and of others: it is shipped so that those can import it.

`builders` makes nodes and pods, and `Scenario` is a cluster in memory that a plugin judges, by its
changes and by a full scan. Nothing else that is shipped imports this package; what only our own
tests need is in `tests/support/`.
"""
