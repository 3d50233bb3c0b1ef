"""Moving pods from some nodes to others, for plugins that judge nodes by how much is used."""
