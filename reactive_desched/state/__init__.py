"""The live state of the cluster: objects in, changes out, synchronous."""
