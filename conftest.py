"""Doctests of modules that need PyTorch are left out where it is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/mien/training/model.py", "src/mien/training/run.py"]
