"""The version, for those whom the package itself imports."""

__version__ = "0.1.0"
