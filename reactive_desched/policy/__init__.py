"""Reads what people write: policy files and settings, strictly, into frozen models.

Import from the module that defines a name: this package imports nothing by itself, so that a
plugin that needs one section of the settings does not load a YAML parser.
"""
