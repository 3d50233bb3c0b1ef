"""The nouns of the project and the pure rules over them: imports no room but those below."""
