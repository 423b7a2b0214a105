"""The version, apart from everything so that the build can read it without importing NumPy."""

__version__ = "0.1.0"
