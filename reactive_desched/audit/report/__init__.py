"""A report on a period of the journal: what is counted, how it is put in words, and its pages."""
