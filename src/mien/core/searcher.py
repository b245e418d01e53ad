"""Searches a gallery, in one part or several: scan for bounds, then measure what can still decide.

A score never falls when a distance rises, so the score of lower bounds is a lower bound of the score. What cannot be
among the first lines by these bounds is left out; all else is measured, one pair of rows at a time. So an answer does
not depend on the batch it was asked in, on threads or on parts, and what is equal ties.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats, Ints
from mien.core.centroids import CentroidKind, added_up
from mien.core.cohort import Query
from mien.core.embeddings import Encoder
from mien.core.gallery_parts import (
    PATIENTS_NAMED,
    GallerySummary,
    LocalParts,
    NearestPatient,
    OwnPatients,
    Parts,
    Question,
    ScannedPart,
    measure_part,
    nearest_patients,
    own_patients,
    rows_of_sums,
    scan_part,
    smallest_of_runs,
    summary_of,
    sums_of_disorders,
)
from mien.core.index import FEW_PROBES, GalleryIndex, RoundedRows, pair_distances, scan
from mien.core.method import ROUNDING, Method, fuse_distances
from mien.core.roster import places_in_runs, run_starts
from mien.core.scores import EVIDENCE_DISTANCES, Evidence
from mien.errors import EmptyGalleryError

FARTHEST = 2.0  # of distances
BOUNDS_AT_A_TIME = 1 << 23  # probes times images: 32 MB for each of a few arrays
EVIDENCE_AT_A_TIME = 1 << 20  # probes times disorders
CENTROIDS_AT_A_TIME = 64  # whose sums are put together: 6 MB from each part
SOME_LEFT = 4  # times as many as are asked for; where more are left, the likely ones are measured before the others
MANY_LEFT = 0.25  # share of all disorders; where more are left of several probes, a product of exact rows costs less


class Estimates(NamedTuple):
    """What a scan says of queries and all disorders of a gallery, without measuring: to about three digits.

    Images by rounded rows, centroids by exact ones. Another batch changes the seventh digit.
    """

    evidence: Evidence  # of probes
    there: Bools
    first_probe: Ints  # of each query

    def distances(self, method: Method) -> Float64s:
        """Distances (queries, disorders) by a method, infinite where a disorder has no image."""
        fused = fuse_distances(method.distance(self.evidence), self.first_probe)
        return np.where(self.there[self.first_probe], fused, np.inf)

    @property
    def gallery_patients(self) -> Ints:
        """Of each disorder (queries, disorders), without the query's own."""
        return self.evidence.gallery_patients[self.first_probe]

    @property
    def photos(self) -> Ints:
        """Of each query."""
        photos: Ints = self.evidence.photos[self.first_probe, 0]
        return photos


class ScannedGallery(NamedTuple):
    """What the parts found of probes and disorders, in arrays that broadcast to (probes, disorders)."""

    question: Question
    parts: Sequence[ScannedPart]
    bounds: Evidence  # distances are (2, probes, disorders): their lower and upper bounds
    there: Bools  # whether an image is left to compare with
    neighbours: Ints  # how many nearest images count
    threshold: Float32s  # no image farther than this is one of them

    def candidates(self, method: Method, top: int | None) -> tuple[Bools, Bools]:
        """Which disorders (queries, disorders) can be among the first `top` of a query, by the bounds; which will be.

        The latter are those whose upper bounds are the smallest: likely ones.
        """
        bounds = method.distance(self.bounds)
        method.require_rising(*bounds[:, self.there])
        first_probe = self.question.first_probe
        low, high = (fuse_distances(np.where(self.there, bound, np.inf), first_probe) for bound in bounds)
        last = np.partition(high, top - 1, axis=1)[:, [top - 1]] if top else np.inf
        return np.isfinite(low) & (low <= last + ROUNDING * np.abs(last)), np.isfinite(high) & (high <= last)

    @property
    def estimates(self) -> Estimates:
        """What lies in the middle of the bounds."""
        middle = {name: getattr(self.bounds, name).mean(axis=0) for name in EVIDENCE_DISTANCES}
        return Estimates(self.bounds._replace(**middle), self.there, self.question.first_probe)


def _means(of_slots: Floats, slots: Ints, counts: Ints) -> Floats:
    """The mean of the first so many slots of each disorder; `counts` is (probes, disorders)."""
    first = np.cumsum(slots) - slots
    place = np.arange(of_slots.shape[-1]) - first.repeat(slots)
    counted = np.where(place < np.repeat(counts, slots, axis=1), of_slots, 0)
    return np.asarray(np.add.reduceat(counted, first, axis=-1) / counts)


class AskedQuery(NamedTuple):
    """A query, and the gallery patients that are its own."""

    query: Query
    own_patients: OwnPatients


class Found(NamedTuple):
    """What a search found for some queries: pairs of a probe and a disorder that were measured, in this order."""

    asked: Sequence[AskedQuery]
    query: Ints  # of each pair, by its number
    disorder: Ints
    distance: Floats  # by the method's score
    evidence: Evidence
    who: Sequence[tuple[str, str]]  # patient id and image id of the nearest image
    estimates: Estimates | None  # for all disorders, if they were wanted


@dataclass(frozen=True, eq=False)
class Searcher:
    """Parts of a gallery, and what they are together. A patient is in one of them, a disorder in any number.

    >>> import numpy as np
    >>> from mien import Cohort, Query, rank
    >>> from mien.core.gallery_parts import LocalParts
    >>> one = Cohort.of(np.eye(3)[:2], image_ids=["1", "2"], patient_ids=["p", "q"], disorder_ids=["Noonan", "Kabuki"])
    >>> other = Cohort.of(np.eye(3)[2:], image_ids=["3"], patient_ids=["r"], disorder_ids=["Kabuki"])
    >>> [answer] = rank(Searcher.of(LocalParts([one.index, other.index])), Query.of(np.array([[0.0, 0.9, 1.0]])))
    >>> line = answer.disorders[0]
    >>> line.disorder_id, line.gallery_images, line.nearest_image_id
    ('Kabuki', 2, '3')
    """

    parts: Parts[GalleryIndex]
    summaries: Sequence[GallerySummary]  # of the parts
    gallery: GallerySummary
    _centroids: dict[CentroidKind, RoundedRows] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Parts[GalleryIndex], names: Sequence[str] = ()) -> Searcher:
        """Asks the parts, which have these names, who is in them; different encoders are refused."""
        summaries = parts.ask(summary_of)
        called = names or [f"part {number + 1}" for number in range(len(summaries))]
        return cls(parts, summaries, GallerySummary.of_parts(summaries, called))

    def __repr__(self) -> str:
        return f"<Searcher of {self.gallery.images:,} images in {len(self.parts)} parts>"

    @property
    def encoder(self) -> Encoder:
        """Of the gallery's embeddings."""
        return self.gallery.encoder

    @cached_property
    def disorders_of_parts(self) -> list[Ints]:
        """Where each part's disorders stand among all."""
        place_of = self.gallery.place_of_disorder
        return [np.array([place_of[each] for each in part.place_of_disorder]) for part in self.summaries]

    def own_patients(self, queries: Sequence[Query]) -> list[OwnPatients]:
        """Each query's own patients, sorted by id."""
        answers = self.parts.ask(partial(own_patients, queries=queries))
        return [dict(sorted(ChainMap(*of_query).items())) for of_query in zip(*answers, strict=True)]

    def asked(self, queries: Sequence[Query], fusion: str) -> list[AskedQuery]:
        """Queries, and who they are in the gallery; with fusion `none` each image is a query of its own."""
        known = [AskedQuery(*of) for of in zip(queries, self.own_patients(queries), strict=True)]
        if fusion != "none":
            return known
        return [AskedQuery(single, own) for query, own in known for single in query.per_image()]

    def search(
        self, queries: Sequence[AskedQuery], method: Method, top: int | None, *, estimate: bool = False
    ) -> Iterator[Found]:
        """All that can be among the first `top` of each query, measured, a few queries at a time."""
        every = top is None or top >= len(self.gallery.disorders)
        for batch in self._batches(queries):
            question = self._question(batch, method)
            fine = every and len(question.rows) >= FEW_PROBES and not estimate
            scanned = self._scan(question, method, fine=fine, estimate=estimate)
            estimates = scanned.estimates if estimate else None
            scanned, shortlist = self._shortlist(scanned, method, None if every else top)
            for asked, of_query in zip(batch, shortlist, strict=True):
                if not of_query.any():
                    whose = f"the own patient of {asked.query}"
                    raise EmptyGalleryError(f"every gallery image belongs to {whose}: nothing to rank")
            probe, disorder = np.nonzero(shortlist[question.query_of_probe])
            measured = self._measure(scanned, method, probe, disorder)
            yield Found(batch, question.query_of_probe[probe], disorder, *measured, estimates)

    def estimates(self, queries: Sequence[AskedQuery], method: Method) -> Iterator[Estimates]:
        """The evidence for every disorder, for a few queries at a time."""
        for batch in self._batches(queries):
            yield self._scan(self._question(batch, method), method, estimate=True).estimates

    def nearest_patients(
        self, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]
    ) -> list[list[NearestPatient]]:
        """The nearest patients of each disorder to any of some unit rows."""
        answers = self.parts.ask(partial(nearest_patients, rows=rows, own=own, disorder_ids=disorder_ids))
        found = (chain.from_iterable(of_disorder) for of_disorder in zip(*answers, strict=True))
        return [sorted(patients, key=lambda each: (each.distance, *each))[:PATIENTS_NAMED] for patients in found]

    def centroids(self, kind: CentroidKind) -> RoundedRows:
        """The unit rows of the disorders' centroids; where they are not here, made once from the sums of all parts."""
        if len(self.parts) == 1 and isinstance(self.parts, LocalParts):
            return self.parts.ask(partial(GalleryIndex.centroids, kind=kind))[0]
        if kind not in self._centroids:
            ids, step = list(self.gallery.place_of_disorder), CENTROIDS_AT_A_TIME
            blocks = (ids[start : start + step] for start in range(0, len(ids), step))
            asks = [partial(sums_of_disorders, disorder_ids=block, kind=kind) for block in blocks]
            self._centroids[kind] = RoundedRows.of(np.concatenate(self.parts.combined(asks, rows_of_sums)))
        return self._centroids[kind]

    def _batches(self, queries: Sequence[AskedQuery]) -> Iterator[list[AskedQuery]]:
        """Queries a few at a time, so many that a batch fits into memory."""
        bounds = BOUNDS_AT_A_TIME // max(part.images_of_disorder.sum() for part in self.summaries)
        most = max(1, min(bounds, EVIDENCE_AT_A_TIME // len(self.gallery.disorders)))
        images = [len(asked.query.encodings.image_ids) for asked in queries]
        batch_of = [before // most for before in accumulate(images, initial=0)]
        for _, batch in groupby(zip(batch_of, queries, strict=False), key=itemgetter(0)):  # the last is the sum of all
            yield [asked for _, asked in batch]

    def _question(self, batch: Sequence[AskedQuery], method: Method) -> Question:
        rows, query_of_probe = probe_rows([asked.query for asked in batch], method.fusion)
        photos = np.array([len(asked.query.encodings.image_ids) for asked in batch])
        own = [asked.own_patients for asked in batch]
        centroid = method.scoring.centroid or "patient"  # it is shown, whether or not it counts
        return Question(rows, query_of_probe, photos[query_of_probe], own, centroid)

    def _scan(
        self, question: Question, method: Method, *, fine: bool = False, estimate: bool = False
    ) -> ScannedGallery:
        """Scans all parts, by exact rows if it is to be `fine`, and joins their bounds with those of the centroids."""
        gallery, rows = self.gallery, question.rows
        slots = method.neighbours(gallery.images_of_disorder)
        asks = [partial(scan_part, question=question, slots=slots[of], fine=fine) for of in self.disorders_of_parts]
        parts = self.parts.ask_each(asks)
        closely = fine or estimate or len(rows) >= FEW_PROBES  # an estimate is mostly its centroid's
        to_centroids = scan(self.centroids(question.centroid), rows, fine=closely)
        centroid = to_centroids.swapaxes(1, 2).astype(np.float64).clip(0, FARTHEST)
        counts = gallery.images_of_disorder, gallery.patients_of_disorder, slots
        images, patients, neighbours = (np.tile(of, (len(rows), 1)) for of in counts)
        left = added_up(part.left for part in parts) if any(question.own_patients) else {}
        for (query, disorder_id), total in left.items():
            own = question.own_patients[query].values()
            lost = [images_of[disorder_id] for images_of in own if disorder_id in images_of]
            place = np.flatnonzero(question.query_of_probe == query), gallery.place_of_disorder[disorder_id]
            images[place] -= sum(lost)
            patients[place] -= len(lost)
            neighbours[place] = np.minimum(method.neighbours(images[place]), neighbours[place])
            centroid[:, *place] = pair_distances(total.unit_row.astype(np.float32), rows[place[0]])
        of_slots = self._merged([part.bounds for part in parts], slots)
        first_slot = np.cumsum(slots) - slots
        there = np.isfinite(of_slots[0][:, first_slot])
        of_slots.clip(0, FARTHEST, out=of_slots)
        nearest = of_slots[..., first_slot]
        means = _means(of_slots, slots, neighbours)
        bounds = Evidence(nearest, means, centroid, images, patients, question.photos[:, np.newaxis])
        last = np.take_along_axis(of_slots[1], first_slot + neighbours - 1, axis=1)
        threshold = np.nextafter(last.astype(np.float32), np.float32(np.inf))
        return ScannedGallery(question, parts, bounds, there, neighbours, threshold)

    def _merged(self, bounds: Sequence[Float32s], slots: Ints) -> Float64s:
        """Bounds (2, probes, slots) for the whole gallery, from those (2, slots, probes) of each part."""
        merged = bounds[0]
        if len(bounds) > 1:
            parts = zip(self.disorders_of_parts, self.summaries, strict=True)
            repeated = [here.repeat(np.minimum(slots[here], part.images_of_disorder)) for here, part in parts]
            disorder_of_slot = np.concatenate(repeated)
            order = np.argsort(disorder_of_slot, kind="stable")
            first = np.searchsorted(disorder_of_slot[order], np.arange(len(slots)))
            merged = smallest_of_runs(np.concatenate(bounds, axis=1)[:, order], first, slots)
        return merged.swapaxes(1, 2).astype(np.float64)

    def _shortlist(self, scanned: ScannedGallery, method: Method, top: int | None) -> tuple[ScannedGallery, Bools]:
        """What a scan found, and which disorders (queries, disorders) can be among the first `top` of a query."""
        candidates = self._candidates(scanned, method, top)
        several = len(scanned.question.rows) >= FEW_PROBES
        if top is not None and several and np.count_nonzero(candidates) > MANY_LEFT * candidates.size:
            scanned = self._scan(scanned.question, method, fine=True)
            candidates = self._candidates(scanned, method, top)
        return scanned, candidates

    def _candidates(self, scanned: ScannedGallery, method: Method, top: int | None) -> Bools:
        """Which disorders can be among the first `top`.

        Centroids are measured first: they are few, and exclude most. Where many disorders are left, the images of the
        likely ones are measured too: others must then be as near as these are, not as near as they may be. What is
        measured replaces its bounds in `scanned`.
        """
        query_of_probe = scanned.question.query_of_probe
        left, likely = scanned.candidates(method, top)
        if method.scoring.centroid:
            self._measure_centroids(scanned, *np.nonzero(left[query_of_probe]))
            left, likely = (left & these for these in scanned.candidates(method, top))
        if top is not None and np.count_nonzero(left) > SOME_LEFT * top * len(left):
            self._measure_nearest(scanned, *np.nonzero(likely[query_of_probe]))
            left &= scanned.candidates(method, top)[0]
        return left

    def _measure_centroids(self, scanned: ScannedGallery, probe: Ints, disorder: Ints) -> None:
        # what is left of a disorder without the own patient was measured already
        whole = scanned.bounds.gallery_images[probe, disorder] == self.gallery.images_of_disorder[disorder]
        probe, disorder = probe[whole], disorder[whole]
        measured = self.centroids(scanned.question.centroid).distances(disorder, scanned.question.rows, probe)
        scanned.bounds.centroid[:, probe, disorder] = measured

    def _measure(
        self, scanned: ScannedGallery, method: Method, probe: Ints, disorder: Ints
    ) -> tuple[Floats, Evidence, list[tuple[str, str]]]:
        """The score of pairs of a shortlist, exact evidence of them, and who is on the nearest image."""
        if not method.scoring.centroid:  # it is shown
            self._measure_centroids(scanned, probe, disorder)
        who = self._measure_nearest(scanned, probe, disorder)
        found, photos = scanned.bounds, scanned.question.photos[probe]
        nearest, mean, centroid = (of[0, probe, disorder] for of in (found.nearest, found.nearest_mean, found.centroid))
        images, patients = (of[probe, disorder] for of in (found.gallery_images, found.gallery_patients))
        evidence = Evidence(nearest, mean, centroid, images, patients, photos)
        scored = method.distance(evidence)
        method.require_rising(scored, scored)
        return scored, evidence, who

    def _measure_nearest(self, scanned: ScannedGallery, probe: Ints, disorder: Ints) -> list[tuple[str, str]]:
        """Replaces bounds by distances to the nearest image and to the mean of those that count; says who is nearest.

        Pairs are distinct and sorted by (probe, disorder).
        """
        threshold = np.full_like(scanned.threshold, -np.inf)
        threshold[probe, disorder] = scanned.threshold[probe, disorder]
        places, asks = self.disorders_of_parts, []
        for here, scanned_part in zip(places, scanned.parts, strict=True):
            some = np.flatnonzero(np.isfinite(threshold[:, here]).any(axis=0))  # of the part's disorders
            within, neighbours = threshold[:, here[some]].T, scanned.neighbours[:, here[some]].T
            ask = partial(measure_part, question=scanned.question, lower_of_labels=scanned_part.lower_of_labels)
            asks.append(partial(ask, disorders=some, threshold=within, neighbours=neighbours))
        pairs, distances = [], []
        nearest: list[tuple[int, float, tuple[str, str]]] = []
        for here, part in zip(places, self.parts.ask_each(asks), strict=True):
            pair = part.probe * threshold.shape[1] + here[part.disorder]
            first = run_starts(pair)
            nearest += zip(pair[first].tolist(), part.distance[first].tolist(), part.who, strict=True)
            pairs.append(pair)
            distances.append(part.distance)
        who = {pair: who for pair, _, who in sorted(nearest, reverse=True)}  # the smallest of each pair stays
        pair, distance = np.concatenate(pairs), np.concatenate(distances)
        order = np.lexsort((distance, pair))
        pair, distance = pair[order], distance[order]
        counted = places_in_runs(pair) < scanned.neighbours.ravel()[pair]
        pair, distance = pair[counted], distance[counted]
        start = np.flatnonzero(run_starts(pair))
        scanned.bounds.nearest[:, probe, disorder] = distance[start]
        means = np.add.reduceat(distance, start) / scanned.neighbours[probe, disorder]
        scanned.bounds.nearest_mean[:, probe, disorder] = means
        return [who[each] for each in pair[start].tolist()]


def probe_rows(queries: Sequence[Query], fusion: str) -> tuple[Float32s, Ints]:
    """The unit rows of some queries, and the query of each row."""
    rows = [query.fused_row if fusion == "embedding" else query.encodings.unit_rows for query in queries]
    return np.concatenate(rows), np.repeat(np.arange(len(queries)), [len(of_query) for of_query in rows])
