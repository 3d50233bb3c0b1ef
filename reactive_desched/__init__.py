"""A descheduler for Kubernetes that reacts to changes instead of polling.

Import from the module that defines a name; nothing is re-exported here, so that importing
one room never loads the others.
"""
