"""The known disorders near the patients of a cohort, and whether any of them can be theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import binom

from mien.answers.calibration import COVERAGE
from mien.answers.ranking import AnyGallery, Ranking, rank_asked, rank_plainly, searcher_of
from mien.core.arrays import Ints
from mien.core.cohort import Encodings, Query
from mien.core.gallery_parts import OwnPatients
from mien.core.method import FULL, fuse_embeddings
from mien.core.searcher import AskedQuery
from mien.evaluation.cohort_rows import CohortPatient, NearDisorder

NEAR = 5  # disorders named of each group
RULED_OUT = 0.05  # where chance gives so few patients with a disorder in their prediction sets


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The patients of a cohort, and their nearest disorders in a gallery without them."""

    gallery: AnyGallery
    queries: list[Query]
    own: OwnPatients  # gallery patients who are in the cohort

    @cached_property
    def rankings(self) -> list[Ranking]:
        """The known disorders near each patient; nobody of the cohort is in the gallery."""
        asked = [AskedQuery(query, self.own) for query in self.queries]
        return rank_asked(self.gallery, searcher_of(self.gallery), asked, FULL, NEAR)

    def _in_sets(self, members: Ints) -> Counter[str] | None:
        """In how many members' prediction sets each disorder is; None without a calibration."""
        sets = [self.rankings[member].prediction_set for member in members.tolist()]
        return None if None in sets else Counter(disorder for each in sets if each for disorder in each.disorder_ids)

    def nothing_close(self, members: Ints) -> bool | None:
        """Whether too few patients have any known disorder in their prediction sets for it to be the group's."""
        counts = self._in_sets(members)
        if counts is None or len(members) < 2:
            return None
        most = max(counts.values(), default=0)
        return bool(binom.cdf(most, len(members), COVERAGE) < RULED_OUT)

    def near_disorders(self, name: str, members: Ints) -> Iterator[NearDisorder]:
        """Known disorders near the mean of some patients, each patient counted once, however many photos."""
        fused = np.stack([fuse_embeddings(self.queries[member].encodings.embeddings) for member in members.tolist()])
        searcher, ids = searcher_of(self.gallery), tuple(str(member) for member in members)
        of_group = Encodings(ids, fused.astype(np.float32), searcher.encoder)
        [ranking] = rank_plainly(searcher, [AskedQuery(Query(of_group), self.own)], FULL, NEAR)
        counts = self._in_sets(members)
        for line in ranking.disorders:
            patients = None if counts is None else counts[line.disorder_id]
            p_value = None if patients is None else float(binom.cdf(patients, len(members), COVERAGE))
            yield NearDisorder(
                name, line.rank, line.disorder_id, line.disorder_name, line.distance, line.centroid_distance,
                line.nearest_distance, line.gallery_patients, patients, p_value,
            )  # fmt: skip

    def patient(self, place: int, group: str | None) -> CohortPatient:
        """One of them, with the nearest disorder."""
        ranking, query = self.rankings[place], self.queries[place]
        first = ranking.disorders[0]
        return CohortPatient(
            query.patient_id or "", group, len(query.encodings.image_ids),
            first.disorder_id, first.disorder_name, first.distance, ranking.none_of_these,
        )  # fmt: skip
