"""What Python users call beside `rank`; what is heavy is imported where it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mien.answers.calibration import PRIOR_OF_NONE, Calibration
from mien.answers.ranking import AnyGallery, as_queries
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.method import BASELINE, FULL, Method
from mien.core.study import ImageFacts, Study
from mien.errors import InvalidFileError, WrongArgumentError, require, shown
from mien.extras import naming_the_missing_extra

if TYPE_CHECKING:
    from mien.evaluation.cohort_rows import CohortAnalysis
    from mien.evaluation.results import Result


@naming_the_missing_extra("mien.encode")
def encode(photos: Iterable[str | Path] | str | Path, *, encoder: str | None = None, device: str = "auto") -> Encodings:
    """Encodes photos, or all photos of a folder; image ids are their names. A photo that does not do is refused.

    `device`: "cpu", "cuda", or "auto", which takes a graphics card if there is one.
    """
    from mien.encoding.folder import find_photos  # noqa: PLC0415
    from mien.encoding.photo_encoder import Photo, RefusedPhoto  # noqa: PLC0415
    from mien.encoding.store import encoder_for  # noqa: PLC0415

    require(photos, str | Path | Iterable, "path", "the paths of photos, or of a folder")
    given = [photos] if isinstance(photos, str | Path) else list(photos)
    for path in given:
        require(path, str | Path, "path", "the paths of photos, or of a folder")
    if not given:
        raise WrongArgumentError("there are no photos: pass the paths of some, or of a folder")
    found = find_photos([Path(path) for path in given])
    loaded = encoder_for(None, encoder).load(device)
    results = list(loaded.encode([Photo(image_id, path) for image_id, path in found.items()]))
    if refused := [f"{shown(each.image_id)}: {each.reason}" for each in results if isinstance(each, RefusedPhoto)]:
        raise InvalidFileError("photos", refused, advice="mend these, or leave them out")
    return loaded.encodings_of(results)


@naming_the_missing_extra("mien.calibrate")
def calibrate(
    gallery: AnyGallery,
    method: Method = FULL,
    *,
    cohort: Cohort | None = None,
    prior: Mapping[str, float] | None = None,
    prior_of_none: float = PRIOR_OF_NONE,
    seed: int = 1,
) -> Calibration:
    """Learns from a gallery's left-out patients, or from a cohort, what distances mean: give it to `rank`."""
    from mien.evaluation.calibrating import calibrate as learned  # noqa: PLC0415 scipy is heavy

    require(method, Method, "method", "a gallery first, then a Method(...)")
    require(cohort, Cohort | None, "cohort", "a Cohort of patients who are not in the gallery")
    return learned(gallery, method, cohort=cohort, prior=prior, prior_of_none=prior_of_none, seed=seed)


@naming_the_missing_extra("mien.cohort")
def cohort(
    gallery: AnyGallery,
    patients: Cohort | Sequence[Query],
    groups: Mapping[str, str] | None = None,
    *,
    facts_of_image: Mapping[str, ImageFacts] | None = None,
    seed: int = 1,
) -> CohortAnalysis:
    """Do these patients share a face? `groups` are by patient id; without them all are one. Labels are ignored."""
    from mien.evaluation.cohort_analysis import analyse_cohort  # noqa: PLC0415 scipy is heavy

    queries = patients.queries() if isinstance(patients, Cohort) else as_queries(patients)
    return analyse_cohort(gallery, queries, groups, facts_of_image=facts_of_image, seed=seed)


@naming_the_missing_extra("mien.evaluate")
def evaluate(
    study: Study | Cohort,
    methods: Method | Sequence[Method] = (BASELINE, FULL),
    *,
    against: Method = BASELINE,
    seed: int = 1,
    folds: int = 10,
) -> list[Result]:
    """Accuracies of methods by the paper's protocol; a cohort is dealt into so many folds.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> faces = rng.standard_normal((8, 1, 16)) + np.repeat(np.eye(16)[:2], 4, axis=0)[:, np.newaxis] * 9
    >>> ids = [str(number) for number in range(8)]
    >>> cohort = Cohort.of(faces, image_ids=ids, patient_ids=ids, disorder_ids=["Noonan"] * 4 + ["Kabuki"] * 4)
    >>> [(result.set, result.top1) for result in evaluate(cohort, [FULL], folds=2)]
    [('rare', 100.0), ('rare', 100.0)]
    """
    from mien.evaluation.comparison import Comparison  # noqa: PLC0415
    from mien.evaluation.evaluated_patients import evaluated_folds  # noqa: PLC0415
    from mien.evaluation.folds import cohort_study  # noqa: PLC0415
    from mien.evaluation.results import evaluate as evaluated  # noqa: PLC0415

    methods = [methods] if isinstance(methods, Method) else list(methods)
    for method in [*methods, against]:
        require(method, Method, "method", "Method(...), or a list of them")
    if isinstance(study, Cohort):
        require(folds, int, "number of folds", "two or more")
        study = cohort_study(study, "a cohort", seed=seed, folds=folds)
    require(study, Study, "study", "a Study or a Cohort first, then methods")
    every = list(dict.fromkeys([*methods, against]))
    return evaluated(
        Comparison(study.encodings, evaluated_folds(study), methods=every), every, seed=seed, against=against
    )
