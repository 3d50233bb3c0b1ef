"""Reads, completes and checks objects of custom kinds by their structural schemas."""

from reactive_desched.sim.structural.schema import StructuralSchema

__all__ = ["StructuralSchema"]
