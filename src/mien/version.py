"""The package's version, and the entry `tool` of documents."""

__version__ = "0.1.0"
TOOL = {"name": "mien", "version": __version__}
