"""A scripted day on a simulated cluster, watched by the very controller of `run`."""

from reactive_desched.demo.day import DemoOptions, play

__all__ = ["DemoOptions", "play"]
