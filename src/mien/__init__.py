"""Ranks rare genetic disorders for a patient from facial photos, and shows the evidence for every rank."""

from __future__ import annotations

from mien.answers.calibration import Calibration
from mien.answers.genes import rank_genes
from mien.answers.ranking import RankedDisorder, Ranking, rank
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.embeddings import Encoder
from mien.core.method import BASELINE, FULL, Method
from mien.core.roster import Disorder, Label, Roster
from mien.core.scores import Evidence, Parameter, Score
from mien.core.study import Study
from mien.errors import MienError
from mien.front_door import calibrate, cohort, encode, evaluate
from mien.storage.gallery import Gallery
from mien.version import __version__

__all__ = [
    "BASELINE",
    "FULL",
    "Calibration",
    "Cohort",
    "Disorder",
    "Encoder",
    "Encodings",
    "Evidence",
    "Gallery",
    "Label",
    "Method",
    "MienError",
    "Parameter",
    "Query",
    "RankedDisorder",
    "Ranking",
    "Roster",
    "Score",
    "Study",
    "__version__",
    "calibrate",
    "cohort",
    "encode",
    "evaluate",
    "rank",
    "rank_genes",
]
