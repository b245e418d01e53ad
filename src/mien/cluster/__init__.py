"""Ranking, encoding and studies on a Dask cluster (extra `cluster`)."""
