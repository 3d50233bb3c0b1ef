"""Text to a tree with places, and a tree to models: YAML, its diagnostics, and strict decoding."""
