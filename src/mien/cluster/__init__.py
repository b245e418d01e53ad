"""Work on a Dask cluster (extra `cluster`)."""
