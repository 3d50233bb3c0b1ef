"""The ways to ask a pod to leave, one file each; `model/evictor_table.py` finds them."""
