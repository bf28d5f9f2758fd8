"""mlc: NumPy functions to native CPU and GPU code, through levels that can be read."""

from mlc.version import __version__

__all__ = ["__version__"]
