"""Do these patients share a face? A cohort against itself, against chance and against the disorders of a gallery."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, Literal, TypeVar

import numpy as np
from scipy.stats import false_discovery_control

from mien.answers.ranking import AnyGallery, searcher_of
from mien.core.arrays import Float32s, Float64s, Ints
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance
from mien.core.index import GalleryIndex
from mien.core.searcher import probe_rows
from mien.core.study import ImageFacts
from mien.errors import InvalidCohortError, shown
from mien.evaluation import group_statistics as statistics
from mien.evaluation.cohort_controls import Controls, controls_of, matching_controls
from mien.evaluation.cohort_map import cohort_map
from mien.evaluation.cohort_neighbours import NEAR, Neighbourhood
from mien.evaluation.cohort_rows import (
    Cluster,
    CohortAnalysis,
    CohortPair,
    GroupResult,
    NearDisorder,
    RandomMean,
    ThresholdPoint,
    WithoutOne,
)
from mien.evaluation.experiment_context import Tables
from mien.evaluation.known_patients import index_of
from mien.progress import Progress, silent

Row = TypeVar("Row", GroupResult, NearDisorder)
EVERYBODY = "all patients"  # the group of a cohort without groups
FALSE_DISCOVERIES = 0.1
SHOWN = 0.05  # a p-value below it shows that a group is alike
STEPS = np.linspace(0, 2, 401)  # distances of the threshold curve
SAME_FACE = 1e-6


def analyse_cohort(
    gallery: AnyGallery,
    queries: Sequence[Query],
    groups: Mapping[str, str] | None = None,
    *,
    facts_of_image: Mapping[str, ImageFacts] | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> CohortAnalysis:
    """Compares patients, in groups by patient id or all as one, with each other and with a gallery without them."""
    ids = [query.patient_id or "" for query in queries]
    _check(ids, groups)
    searcher, index = searcher_of(gallery), index_of(gallery)
    encoders = dict.fromkeys(query.encodings.encoder for query in queries)
    for encoder in encoders:
        encoder.require_same(searcher.encoder, here="the cohort", there="the gallery")
    for one, other in combinations(encoders, 2):  # a gallery that does not name its encoder agrees with both
        one.require_same(other, here="one patient", there="another one")
    own = dict(sorted(ChainMap(*searcher.own_patients(queries)).items()))
    group_of = [EVERYBODY if groups is None else groups.get(patient_id) for patient_id in ids]
    largest = max(Counter(group for group in group_of if group is not None).values(), default=0)
    controls = controls_of(index, own, progress)
    if largest >= len(controls.patients):
        raise InvalidCohortError(
            f"{largest} patients in a group, {len(controls.patients)} in the gallery: too few there"
        )
    rows, _ = probe_rows(queries, "embedding")
    neighbours = Neighbourhood(gallery, list(queries), own)
    work = _Analysis(index, list(queries), ids, group_of, neighbours, controls, rows, seed, facts_of_image)
    return CohortAnalysis(work.tables(progress), work.facts())


def _check(ids: Sequence[str], groups: Mapping[str, str] | None) -> None:
    if not all(ids):
        raise InvalidCohortError("a patient without an id: say whose photos they are, in a column patient_id")
    if twice := [patient_id for patient_id, count in Counter(ids).items() if count > 1]:
        raise InvalidCohortError(
            f"patient {shown(twice[0])} is there twice: put all photos of a patient into one query"
        )
    if len(ids) < 2:
        raise InvalidCohortError(f"{len(ids)} patient: two or more are needed, photos of one patient count as one")
    if groups is not None and not set(ids) & set(groups):
        raise InvalidCohortError("no patient of the cohort has a group: fill in the column, or leave it out")


@dataclass(frozen=True, eq=False)
class _Analysis:
    """The analysis of one valid cohort: what its tables are made of, each made once."""

    index: GalleryIndex
    queries: list[Query]
    ids: list[str]
    group_of: list[str | None]
    neighbours: Neighbourhood
    controls: Controls
    rows: Float32s
    seed: int
    facts_of_image: Mapping[str, ImageFacts] | None

    @cached_property
    def distances(self) -> Float32s:
        """Between the cohort's patients."""
        found = np.asarray(mean_cosine_distance(self.rows, self.rows), dtype=np.float32)
        np.fill_diagonal(found, 2)
        if found.min() < SAME_FACE:
            one, other = (self.ids[place] for place in np.argwhere(found < SAME_FACE)[0].tolist())
            raise InvalidCohortError(
                f"patients {shown(one)} and {shown(other)} have the same embedding: one person, two ids? Take one out"
            )
        np.fill_diagonal(found, 0)
        return found

    @cached_property
    def to_controls(self) -> Float32s:
        """From the cohort's patients to the controls."""
        return np.asarray(mean_cosine_distance(self.rows, self.controls.rows), dtype=np.float32)

    @cached_property
    def first_photos(self) -> Float32s:
        """One photo of each patient of the cohort, the first by image id."""
        firsts = [min(query.per_image(), key=lambda photo: photo.encodings.image_ids) for query in self.queries]
        return probe_rows(firsts, "none")[0]

    @cached_property
    def ranks(self) -> Ints:
        """Where each patient stands in the list of each other one."""
        return statistics.neighbour_ranks(self.distances, self.to_controls)

    @cached_property
    def members_of(self) -> dict[str, Ints]:
        """Places of the patients of each group."""
        names = dict.fromkeys(group for group in self.group_of if group is not None)
        return {name: np.flatnonzero([group == name for group in self.group_of]) for name in names}

    @cached_property
    def shares(self) -> statistics.PairShares:
        """How close pairs of controls are, at the mean of each group and at distances between."""
        several = [members for members in self.members_of.values() if len(members) > 1]
        means = [statistics.mean_within(self.distances[np.ix_(members, members)]) for members in several]
        at = np.unique([*STEPS, *means])
        return statistics.pair_shares(self.controls.distances, self.controls.disorder_of_patient, at)

    def tables(self, progress: Progress) -> Tables:
        """Everything that is found; progress counts groups."""
        near = [
            self._against_disorder(line, members)
            for name, members in self.members_of.items()
            for line in self.neighbours.near_disorders(name, members)
        ]
        found, without, drawn = [], [], []
        for number, (name, members) in enumerate(self.members_of.items()):
            progress(number, len(self.members_of))
            result = GroupResult(name, len(members), no_known_disorder_close=self.neighbours.nothing_close(members))
            if len(members) > 1:
                result, lone, random = self._against_chance(result, members)
                without += lone
                drawn += random
            found.append(result)
        pairs = self.pairs()
        people = dict(zip(zip(self.ids, self.group_of, strict=True), self.rows, strict=True))
        nearest = [line.disorder_id for line in sorted(near, key=lambda line: line.rank)]
        return {
            "groups": _corrected(_corrected(found, "p_value", "p_holm"), "p_between", "p_between_holm"),
            "without_one": without,
            "random_means": drawn,
            "pairs": pairs,
            "clusters": list(self.clusters(pairs)),
            "near_disorders": _corrected(near, "p_between", "p_between_holm"),
            "patients": [self.neighbours.patient(*each) for each in enumerate(self.group_of)],
            "threshold": [ThresholdPoint(*map(float, point)) for point in zip(*self.shares[:3], strict=True)],
            "map": cohort_map(self.index.roster, self.controls, people, nearest, rng=self._rng(2)),
        }

    def facts(self) -> dict[str, Any]:
        """Counts and settings."""
        rank = self.neighbours.rankings[0]
        return {
            "patients": len(self.ids),
            "photos": sum(len(query.encodings.image_ids) for query in self.queries),
            "left_out_of_gallery": list(self.neighbours.own),
            "control_patients": len(self.controls.patients),
            "control_photos": self.controls.photos,
            "control_disorders": self.controls.disorders,
            "controls_with_several_disorders": self.controls.with_several_disorders,
            "draws": statistics.DRAWS,
            "most_enumerated": statistics.MOST_ENUMERATED,
            "most_of_one": statistics.MOST_OF_ONE,
            "near": NEAR,
            "matched_draws": statistics.MATCHED_DRAWS if self.facts_of_image else None,
            "false_discovery_rate": FALSE_DISCOVERIES,
            "calibration": rank.calibration._asdict() if rank.calibration else None,
            "largest_group": max(map(len, self.members_of.values())),
            "auc": round(self.shares.auc, 6),
            "seed": self.seed,
        }

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])

    def _against_chance(
        self, result: GroupResult, members: Ints
    ) -> tuple[GroupResult, list[WithoutOne], list[RandomMean]]:
        own, size, disorder = self.distances[np.ix_(members, members)], len(members), self.controls.disorder_of_patient
        mean, shares = statistics.mean_within(own), self.shares
        groups = statistics.random_groups(disorder, size, statistics.DRAWS, rng=self._rng(3, size))
        drawn, shorter = statistics.means_within(self.controls.distances, groups)
        rests = statistics.means_without_one(own).tolist() if size > 2 else []
        lone = [
            WithoutOne(result.group, self.ids[member], rest, statistics.chance(shorter, rest))
            for member, rest in zip(members.tolist(), rests, strict=False)
        ]
        p_value, worst = statistics.chance(drawn, mean), max(lone, key=lambda row: row.p_value, default=None)
        gone = worst is not None and p_value < SHOWN <= worst.p_value
        interval = statistics.jackknife_interval(own)
        place = int(np.searchsorted(shares.distances, mean))

        def effect(distance: float) -> float:
            return (shares.mean_of_different - distance) / shares.sd_of_different

        result = result._replace(
            mean_distance=mean,
            random_mean=shares.mean_of_different,
            p_value=p_value,
            effect=effect(mean),
            ci_low=effect(interval[1]) if interval else None,
            ci_high=effect(interval[0]) if interval else None,
            p_without_one=worst.p_value if worst else None,
            hangs_on=worst.patient_id if worst and gone else None,
            same_disorder_share=float(shares.same[place]),
            different_disorder_share=float(shares.different[place]),
            less_alike_disorders=int((shares.mean_of_disorder >= mean).sum()),
            compared_disorders=len(shares.mean_of_disorder),
            median_rank=float(np.median(self.ranks[np.ix_(members, members)][~np.eye(size, dtype=np.bool_)])),
        )
        alike = statistics.groups_of_one_disorder(disorder, size, statistics.MATCHED_DRAWS, rng=self._rng(4, size))
        random = _histogram(result.group, "different", drawn)
        if alike.shape[1] > 1:
            random += _histogram(result.group, "one", statistics.means_within(self.controls.distances, alike)[0])
        return self._against_others(self._against_matching(result, members, mean), members), lone, random

    def _against_matching(self, result: GroupResult, members: Ints, mean: float) -> GroupResult:
        if not self.facts_of_image:
            return result
        images = [self.queries[member].encodings.image_ids for member in members.tolist()]
        suits, both = matching_controls(self.controls, self.index, images, self.facts_of_image)
        if suits.all():
            return result
        disorder, rng = self.controls.disorder_of_patient, self._rng(1)
        groups = statistics.matched_groups(disorder, suits, statistics.MATCHED_DRAWS, rng=rng)
        drawn, _ = statistics.means_within(self.controls.distances, groups)
        return result._replace(p_matched=statistics.chance(drawn, mean), matched_patients=both)

    def _against_others(self, result: GroupResult, members: Ints) -> GroupResult:
        if len(members) == len(self.ids):
            return result
        inside = np.isin(np.arange(len(self.ids)), members)
        found = statistics.separation(self.distances, inside, rng=self._rng(0))
        return result._replace(between_distance=found.between, p_between=found.p_value, between_exact=found.exact)

    def _against_disorder(self, line: NearDisorder, members: Ints) -> NearDisorder:
        """Whether the group is apart from the gallery's patients with a disorder, where enough have it.

        By one photo of each: patients are dealt to the two at random, and an average of more photos varies less.
        """
        disorder = self.index.roster.disorder_of_id[line.disorder_id]
        others = np.flatnonzero(self.controls.disorder_of_patient == disorder)
        if len(members) < 2 or SHOWN * comb(len(members) + len(others), len(members)) <= 1:
            return line  # so few that no result could show it
        of_others = self.index.images.exact[self.controls.first_image[others]]
        rows = np.concatenate([self.first_photos[members], of_others])
        every = mean_cosine_distance(rows, rows)
        np.fill_diagonal(every, 0)
        inside = np.arange(len(every)) < len(members)
        found = statistics.separation(every, inside, rng=self._rng(5), others_alike=True)
        return line._replace(
            within_distance=statistics.mean_within(every[: len(members), : len(members)]),
            between_distance=found.between,
            p_between=found.p_value,
            between_exact=found.exact,
        )

    def pairs(self) -> list[CohortPair]:
        """Every two patients, the closest first."""
        ranks = self.ranks
        one, other = np.triu_indices(len(self.ids), 1)
        apart = self.distances[one, other]
        p_values = statistics.chance_of_pairs(apart, self.controls.distances, self.controls.disorder_of_patient)
        q_values = false_discovery_control(p_values)
        return [
            CohortPair(
                self.ids[one[pair]], self.ids[other[pair]], float(apart[pair]),
                int(ranks[one[pair], other[pair]]), int(ranks[other[pair], one[pair]]),
                float(p_values[pair]), float(q_values[pair]),
            )
            for pair in np.argsort(apart, kind="stable").tolist()
        ]  # fmt: skip

    def clusters(self, pairs: Sequence[CohortPair]) -> Iterator[Cluster]:
        """Patients who are candidates to be looked at together."""
        close = [pair for pair in pairs if pair.q_value <= FALSE_DISCOVERIES]
        if not close:
            return
        for number, places in enumerate(statistics.close_clusters(self.distances, close[-1].distance), start=1):
            ids = {self.ids[place] for place in places}
            inside = [pair for pair in close if {pair.patient_id, pair.other_id} <= ids]
            near = self.neighbours.near_disorders(f"cluster {number}", np.array(places))
            yield Cluster(
                number,
                len(places),
                tuple(sorted(ids)),
                statistics.mean_within(self.distances[np.ix_(places, places)]),
                max(pair.q_value for pair in inside),
                tuple(line.disorder_name or line.disorder_id for line in list(near)[:3]),
            )


def _histogram(group: str, disorders: Literal["one", "different"], means: Float64s) -> list[RandomMean]:
    counts, edges = np.histogram(means, bins=50)
    bars = zip(((edges[1:] + edges[:-1]) / 2).tolist(), counts.tolist(), strict=True)
    return [RandomMean(group, disorders, *bar) for bar in bars]


def _corrected(rows: Sequence[Row], name: str, into: str) -> list[Row]:
    """Rows with p-values corrected for the number of tests of the run."""
    corrected = list(rows)
    tested = [place for place, row in enumerate(corrected) if getattr(row, name) is not None]
    adjusted = statistics.holm(np.array([getattr(corrected[place], name) for place in tested]))
    for place, value in zip(tested, adjusted.tolist(), strict=True):
        corrected[place] = corrected[place]._replace(**{into: value})
    return corrected
