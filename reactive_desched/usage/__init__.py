"""Measures real use: queries the sources of metrics, and turns their answers into samples."""
