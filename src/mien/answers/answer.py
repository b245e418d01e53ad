"""What an answer consists of, and the order of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from mien.core.arrays import places_in_runs
from mien.core.encoder import Encoder
from mien.core.fusion import fuse_distances
from mien.core.roster import Disorder
from mien.core.searcher import Found
from mien.extras import naming_the_missing_extra

NOTICE = "mien supports a clinician's judgement and never gives a diagnosis."
CAVEAT = "Sex, age and ancestry shape a face, too: patients who share them can look alike without sharing a disorder."
NEVER_SAW_SYNDROMES = "The encoder was trained to tell people apart and has never seen a syndrome: expect little of it."


def notice_for(encoder: Encoder | None) -> str:
    """What must be said beside every answer."""
    unfit = encoder is not None and encoder.trained_on_syndromes is False
    return " ".join([NOTICE, CAVEAT, *[NEVER_SAW_SYNDROMES] * unfit])


class RankedDisorder(NamedTuple):
    """One line of a ranking and its evidence.

    Where several photos of the query are compared one by one (fusion `distance`), the two parts are means over
    the photos, and the nearest image is the one that came closest to any of them.
    """

    rank: int
    disorder_id: str
    disorder_name: str | None
    omim: str | None
    distance: float
    nearest_distance: float
    centroid_distance: float  # to the image-weighted centroid where that is the score, else to the patient-weighted one
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int
    gallery_patients: int
    probability: float | None = None  # this and the next: where there is a calibration
    log10_likelihood_ratio: float | None = None


class RankedGene(NamedTuple):
    """One line of a ranking by gene: the gene's nearest disorder, and the evidence for that one."""

    rank: int  # the same for all that are as far away
    gene_symbol: str | None  # None: a disorder without a gene
    entrez_id: str | None
    hgnc_id: str | None
    ensembl_id: str | None
    distance: float
    disorder_id: str
    disorder_name: str | None
    nearest_distance: float
    centroid_distance: float
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int  # of the nearest disorder
    gallery_patients: int
    disorder_ids: tuple[str, ...]  # all disorders of this gene
    probability: float | None = None  # that it is one of them
    log10_likelihood_ratio: float | None = None


class PredictionSet(NamedTuple):
    """The shortest list that holds the true disorder of so many patients, where the gallery has it."""

    coverage: float
    disorder_ids: tuple[str, ...]  # the most probable first


class CalibrationFacts(NamedTuple):
    """What stands behind the probabilities of an answer."""

    patients: int
    generation: int  # of the gallery when it was made
    stale: bool  # the gallery has changed since
    prior_of_none: float
    largest_log10_likelihood_ratio: float  # where ratios are capped
    patients_with_such_an_answer: int  # left-out ones, whose first disorder was about as probable
    of_them_right: int
    caution: str


class Ranking(NamedTuple):
    """The answer to one query; `excluded_gallery_patients` are the query's own patient, left out of the gallery."""

    patient_id: str | None
    image_ids: tuple[str, ...]
    excluded_gallery_patients: tuple[str, ...]
    disorders: tuple[RankedDisorder, ...]
    none_of_these: float | None = None  # probability that the disorder is not in the gallery
    prediction_set: PredictionSet | None = None
    calibration: CalibrationFacts | None = None
    genes: tuple[RankedGene, ...] | None = None  # this and the next: where genes were asked for
    not_described: tuple[str, ...] | None = None  # disorders of which no table says what genes they have

    def __repr__(self) -> str:
        first = f", first {self.disorders[0].disorder_id}" if self.disorders else ""
        return f"<Ranking of {len(self.disorders):,} disorders by {len(self.image_ids):,} images{first}>"

    def to_arrow(self) -> Any:
        """The lines as a pyarrow Table: genes if these were asked for, else disorders."""
        import pyarrow as pa  # noqa: PLC0415 heavy

        lines = self.disorders if self.genes is None else self.genes
        return pa.Table.from_pylist([without_nothing(line) for line in lines])

    @naming_the_missing_extra("Ranking.to_pandas")
    def to_pandas(self) -> Any:
        """The lines as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The lines as a notebook shows them."""
        lines = [("rank", "disorder", "distance", "nearest patient", "gallery patients")]
        for line in self.disorders:
            name, distance = line.disorder_name or line.disorder_id, f"{line.distance:.3f}"
            lines.append((str(line.rank), name, distance, line.nearest_patient_id, str(line.gallery_patients)))
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table><p>{NOTICE}</p>"


NOT_ALWAYS = (
    *("probability", "log10_likelihood_ratio", "none_of_these", "prediction_set", "calibration"),
    *("genes", "not_described"),
)


def without_nothing(of_answer: Ranking | RankedDisorder | RankedGene) -> dict[str, Any]:
    """Its fields by name, without those of a calibration and of genes where there is none."""
    return {name: value for name, value in of_answer._asdict().items() if value is not None or name not in NOT_ALWAYS}


def ranked(found: Found, disorders: Sequence[Disorder], top: int | None) -> Iterator[Ranking]:
    """Orders each query's disorders by (distance, disorder id), and attaches the evidence."""
    pairs = found.pairs
    distances = np.array([pairs.distance, pairs.nearest, pairs.centroid]).T
    cell_of_pair = found.query_of_probe[pairs.probe] * len(disorders) + pairs.disorder
    by_cell = np.argsort(cell_of_pair, kind="stable")
    cells, first_pair = np.unique(cell_of_pair[by_cell], return_index=True)  # one per query and disorder
    fused = fuse_distances(distances[by_cell], first_pair)
    closest = np.lexsort((pairs.nearest, cell_of_pair))[first_pair]  # of each cell's pairs

    query = cells // len(disorders)
    order = np.lexsort((cells, fused[:, 0], query))
    place = places_in_runs(query)
    order, place = (order, place) if top is None else (order[place < top], place[place < top])
    shown = closest[order]
    lines = zip(
        (place + 1).tolist(),
        [disorders[place] for place in (cells[order] % len(disorders)).tolist()],
        map(tuple, fused[order].tolist()),
        [pairs.who[pair] for pair in shown.tolist()],
        pairs.images[shown].tolist(),
        pairs.patients[shown].tolist(),
        strict=True,
    )
    made = (
        RankedDisorder(rank, *names, *distances, image_id, patient_id, images, patients)  # type: ignore[call-arg]
        for rank, names, distances, (patient_id, image_id), images, patients in lines
    )
    for (asked, own), count in zip(found.asked, np.bincount(query[order]).tolist(), strict=True):
        yield Ranking(asked.patient_id, asked.encodings.image_ids, own, tuple(islice(made, count)))
