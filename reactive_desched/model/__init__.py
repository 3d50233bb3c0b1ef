"""The nouns of the project and the pure rules over them; knows nothing else."""
