"""Ranks rare genetic disorders for a patient from facial photos, and shows the evidence for every rank."""

from __future__ import annotations

from mien.core.cohort import Cohort, Encodings, Query
from mien.core.encoder import Encoder
from mien.core.errors import MienError
from mien.core.evidence import RankedDisorder, Ranking
from mien.core.method import BASELINE, FULL, Method
from mien.core.ranking import rank
from mien.core.roster import Disorder, Label, Roster
from mien.storage.gallery import Gallery
from mien.version import __version__

__all__ = [
    "BASELINE",
    "FULL",
    "Cohort",
    "Disorder",
    "Encoder",
    "Encodings",
    "Gallery",
    "Label",
    "Method",
    "MienError",
    "Query",
    "RankedDisorder",
    "Ranking",
    "Roster",
    "__version__",
    "rank",
]
