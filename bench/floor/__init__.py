"""The least program of the controller's shape: what Python can do on this machine.

It imports nothing of `reactive_desched`, so that nothing of ours can make the floor slower.
"""
