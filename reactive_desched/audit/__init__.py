"""Searches a journal and proves it whole, while it is written or long after."""
