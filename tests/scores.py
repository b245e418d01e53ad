"""The methods that ranking is tested with: every registered score, and one that looks at the gallery's size."""

from __future__ import annotations

from itertools import product

from mien import Method
from mien.core.method import FUSIONS
from mien.core.scores import Evidence, Parameter, Score, known_scores


def by_size(evidence: Evidence, strength: float):
    """Trusts the nearest image more the more patients there are, and adds a little for few images and photos."""
    weight = evidence.gallery_patients / (evidence.gallery_patients + strength)
    mixed = weight * evidence.nearest_mean + (1 - weight) * evidence.centroid
    return mixed + 0.05 / evidence.gallery_images + 0.02 / evidence.photos


SIZE_AWARE = Score(
    "test-by-size",
    by_size,
    parameters=(Parameter("strength", 2.0, 0, 100, "Patients at which both weigh the same."),),
    neighbours=lambda images_of_disorder, **_: (images_of_disorder + 3) // 4,
)

ALL_METHODS = [
    *(Method(fusion, score) for fusion, score in product(FUSIONS, [*known_scores(), SIZE_AWARE])),
    *(Method(fusion, "hybrid", centroid_weight=weight) for fusion, weight in product(FUSIONS, (0.0, 0.3, 1.0))),
    *(Method(fusion, "proportional", alpha=alpha) for fusion, alpha in product(FUSIONS, (0.1, 0.5, 1))),
    *(
        Method("embedding", "proportional-hybrid", centroid_weight=weight, alpha=alpha)
        for weight, alpha in ((0.0, 0.5), (0.3, 0.1), (0.75, 1))
    ),
    Method("embedding", SIZE_AWARE, strength=9.0),
    Method("embedding", "size-aware", offset=-0.1, slope=0.3),
]
