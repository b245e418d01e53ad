"""Draws the patients of the simulated GMDB. All counts of images, patients and disorders are the paper's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.study import MOST_PATIENTS_OF_RARE

FOLDS = 10


class Counts(NamedTuple):
    """Patients with one photo, patients with several, and the photos of the latter."""

    single: int
    multi: int
    multi_images: int


FREQUENT_DISORDERS, RARE_DISORDERS = 349, 361
TRAIN_PATIENTS, TRAIN_IMAGES = 8_287, 11_128
VALIDATION_PATIENTS, VALIDATION_IMAGES = 1_080, 1_449
FREQUENT_TEST, FREQUENT_TEST_MULTI_DISORDERS = Counts(787, 156, 468), 105
RARE, RARE_MULTI_DISORDERS = Counts(1_026, 214, 528), 135
TWO_DISORDER_IMAGES = (3, 2)  # two patients of the training set have a rare disorder too
# test patients with several photos, and their photos, in the ten folds: 65.2 ± 4.4 and 159.9 ± 11.8,
# so that a fold tests 361 patients on 455.7 ± 7.7 photos
FOLD_MULTI_PATIENTS = (64, 58, 69, 62, 75, 64, 65, 63, 68, 64)
FOLD_MULTI_IMAGES = (150, 142, 169, 155, 186, 159, 161, 153, 170, 154)


class Patients(NamedTuple):
    """One entry per patient and disorder. Disorders are numbered, the frequent ones first."""

    disorder: Ints
    images: Ints
    role: tuple[str, ...]  # train, validation, test (frequent) or rare
    folds: tuple[tuple[int, ...], ...]  # in which a rare patient is tested
    same_person_as: dict[int, int]  # a rare patient who is also a patient of the training set


def simulated_patients(rng: np.random.Generator) -> Patients:
    """Draws a GMDB-shaped set of patients."""
    frequent_disorder, frequent_images, role = _frequent(rng)
    rare_disorder, rare_images = _rare(rng)
    first_rare = len(frequent_disorder)
    trained = np.array(role) == "train"
    in_training = [
        int(rng.choice(np.flatnonzero(trained & (frequent_images == images)))) for images in TWO_DISORDER_IMAGES
    ]
    in_rare: list[int] = []  # the same persons
    for images in TWO_DISORDER_IMAGES:
        others = ~np.isin(rare_disorder, rare_disorder[in_rare])
        in_rare.append(int(rng.choice(np.flatnonzero((rare_images == images) & others))))
    folds = _folds(rng, rare_disorder, rare_images)
    return Patients(
        disorder=np.concatenate([frequent_disorder, FREQUENT_DISORDERS + rare_disorder]),
        images=np.concatenate([frequent_images, rare_images]),
        role=(*role, *["rare"] * len(rare_disorder)),
        folds=(*[()] * first_rare, *folds),
        same_person_as={first_rare + rare: train for rare, train in zip(in_rare, in_training, strict=True)},
    )


def _frequent(rng: np.random.Generator) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Disorder, number of images and role of every patient of a frequent disorder."""
    test_patients = FREQUENT_TEST.single + FREQUENT_TEST.multi
    patients = TRAIN_PATIENTS + VALIDATION_PATIENTS + test_patients
    # long-tailed: the largest disorder has hundreds of patients, the median one about fifteen
    tail = ((np.arange(FREQUENT_DISORDERS) + 0.5) / FREQUENT_DISORDERS) ** -0.5
    size = _in_proportion(patients, tail - tail.min(), least=MOST_PATIENTS_OF_RARE + 1)
    tested = _in_proportion(test_patients, size - 7.0, least=1)
    validated = _in_proportion(VALIDATION_PATIENTS, size - 5.0, least=0)
    trained = size - tested - validated
    numbers = np.arange(FREQUENT_DISORDERS)
    disorder = np.concatenate([np.repeat(numbers, count) for count in (trained, validated, tested)])
    images = np.concatenate(
        [
            _gallery_images(rng, TRAIN_PATIENTS, TRAIN_IMAGES),
            _gallery_images(rng, VALIDATION_PATIENTS, VALIDATION_IMAGES),
            _test_images(rng, np.repeat(numbers, tested), FREQUENT_TEST, FREQUENT_TEST_MULTI_DISORDERS, tail=2),
        ]
    )
    role = ["train"] * TRAIN_PATIENTS + ["validation"] * VALIDATION_PATIENTS + ["test"] * test_patients
    return disorder, images, tuple(role)


def _rare(rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Disorder and number of images of every patient of a rare disorder."""
    patients = RARE.single + RARE.multi
    extra = np.zeros(RARE_DISORDERS, dtype=np.intp)
    while extra.sum() < patients - 2 * RARE_DISORDERS:
        room = np.flatnonzero(extra < MOST_PATIENTS_OF_RARE - 2)
        extra[rng.choice(room)] += 1
    disorder = np.repeat(np.arange(RARE_DISORDERS), 2 + extra)
    return disorder, _test_images(rng, disorder, RARE, RARE_MULTI_DISORDERS, tail=1)  # folds differ by little


def _in_proportion(total: int, weight: Floats, *, least: int) -> Ints:
    """Whole numbers that add up to the total, in proportion to weights, none below the least."""
    room = total - least * len(weight)
    exact = room * weight / weight.sum()
    shares = np.floor(exact).astype(np.intp)
    shares[np.argsort(shares - exact, kind="stable")[: room - shares.sum()]] += 1
    in_all: Ints = least + shares
    return in_all


def _gallery_images(rng: np.random.Generator, patients: int, images: int) -> Ints:
    """Images per patient: one patient in six has several, as among the test patients; a few have more than ten."""
    images_of = np.ones(patients, dtype=np.intp)
    multi = rng.choice(patients, size=patients // 6, replace=False)
    images_of[multi] = _images_of_multi(rng, len(multi), images - patients + len(multi), tail=2)
    return images_of


def _images_of_multi(rng: np.random.Generator, patients: int, images: int, *, tail: float) -> Ints:
    """Distributes images to patients with several, two at least; the larger the tail, the more unevenly."""
    return _in_proportion(images, rng.exponential(size=patients) ** tail, least=2)


def _test_images(
    rng: np.random.Generator, disorder_of_patient: Ints, counts: Counts, disorders: int, *, tail: float
) -> Ints:
    """Images per patient, with the exact counts of multi-image patients and of their disorders."""
    patients = rng.permutation(len(disorder_of_patient))
    _, first = np.unique(disorder_of_patient[patients], return_index=True)
    chosen = np.sort(first)[:disorders]  # the first patient of each disorder that comes up: large ones come up earlier
    inside = np.isin(disorder_of_patient[patients], disorder_of_patient[patients[chosen]])
    others = np.setdiff1d(np.flatnonzero(inside), chosen)[: counts.multi - disorders]
    multi = patients[np.concatenate([chosen, others])]
    images = np.ones(len(disorder_of_patient), dtype=np.intp)
    images[multi] = _images_of_multi(rng, counts.multi, counts.multi_images, tail=tail)
    return images


def _folds(rng: np.random.Generator, disorder: Ints, images: Ints) -> list[tuple[int, ...]]:
    """The folds in which each rare patient is tested: one patient per disorder and fold.

    Starts with random folds, then exchanges test patients until the counts of each fold are the published ones.
    Every patient of the start stays in at least one fold.
    """
    members = [np.flatnonzero(disorder == number) for number in range(RARE_DISORDERS)]
    tested = np.array([rng.permuted(np.resize(rng.permuted(who), FOLDS)) for who in members])  # (disorders, folds)
    weight = np.where(images[:, np.newaxis] > 1, np.stack([np.ones_like(images), images], axis=1), 0)
    owner = np.repeat(np.arange(RARE_DISORDERS), [len(who) for who in members])  # of each candidate
    candidates = np.concatenate(members)
    times = np.bincount(tested.ravel(), minlength=len(disorder))
    for fold, wanted in enumerate(zip(FOLD_MULTI_PATIENTS, FOLD_MULTI_IMAGES, strict=True)):
        while (off := weight[tested[:, fold]].sum(axis=0) - wanted).any():
            instead_of = tested[owner, fold]
            after = np.abs(off + weight[candidates] - weight[instead_of]).sum(axis=1)
            odds = np.exp(-after.astype(float)) * (times[instead_of] > 1)  # random, so that it does not get stuck
            chosen = rng.choice(len(candidates), p=odds / odds.sum())
            times[instead_of[chosen]] -= 1
            times[candidates[chosen]] += 1
            tested[owner[chosen], fold] = candidates[chosen]
    return [tuple(np.flatnonzero((tested == patient).any(axis=0)).tolist()) for patient in range(len(disorder))]
