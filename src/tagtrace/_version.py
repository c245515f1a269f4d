"""The version, where nothing else needs importing."""

__version__ = "0.1.0"
