"""The live picture of the cluster: objects in, changes out, synchronous."""
