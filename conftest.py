"""What holds for every test process and what it starts, set before numpy is loaded; what cannot be collected."""

import os
import sys
from importlib.util import find_spec

# two workers of one thread each: threads that wait for each other only spin, and matrices of tests are small
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

# commands start in a fraction of the time if what they import is compiled
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# doctests of modules that need PyTorch are left out where it is not installed
collect_ignore = [] if find_spec("torch") else ["src/mien/training/model.py", "src/mien/training/run.py"]
