"""The durable record: nothing is evicted before its intent is on disk.

Import `Journal` from `journal.journal`, record kinds from `journal.records`, and `read_events` from
`journal.reading`.
"""
