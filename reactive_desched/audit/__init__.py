"""Searching the record and proving it: what an auditor does with a journal, live or long after."""
