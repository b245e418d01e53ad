"""The equations of the framework, on numpy arrays: no files, no logging, no randomness without an rng."""
