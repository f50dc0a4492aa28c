"""What each function of the analytics is asked on every engine: a module per namespace, each with its ``CASES``."""
