"""How often `mien cohort` finds that patients of one disorder are alike, and how often it finds it of mixed ones.

Prints the tables of docs/cohort.md for cohort tables that are given. Some minutes for each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import false_discovery_control, kstest

from mien.core.arrays import Bools, Ints
from mien.core.embeddings import mean_cosine_distance
from mien.evaluation.cohort_analysis import FALSE_DISCOVERIES
from mien.evaluation.cohort_controls import Controls, controls_of
from mien.evaluation.group_statistics import (
    chance,
    chance_of_pairs,
    jackknife_interval,
    mean_within,
    means_within,
    random_groups,
    separation,
)
from mien.progress import silent
from mien.storage.loading import Source, load_cohort

SIZES = (3, 5, 10)
COHORTS = 50  # of each disorder
MIXED = 1000
DRAWS = 999
UNSOLVED = 200


def main() -> None:
    """Prints a table for each file, and one of the disorders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohorts", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(
        "| data | patients | detected (%) | least and most of a disorder | mixed, p < 0.05 (%) | uniform, p |"
        " interval holds (%) |"
    )
    print("|---|---|---|---|---|---|---|")
    lines, unsolved, known = [], [], []
    for path in given.cohorts:
        cohort, _ = load_cohort(Source(path), silent)
        people, rng = controls_of(cohort.index, (), silent), np.random.default_rng(given.seed)
        for size in SIZES:
            powers, held = zip(*_detections(people, size, rng), strict=True)
            mixed = _mixed(people, size, rng)
            print(
                f"| {path.stem} | {size} | {np.mean(powers):.0f} | {min(powers):.0f} to {max(powers):.0f} |"
                f" {100 * np.mean(mixed < 0.05):.1f} | {kstest(mixed, 'uniform').pvalue:.2f} | {np.mean(held):.0f} |"
            )
            lines += [(path.stem, size, cohort.roster.disorders[d].disorder_id, p) for d, p in enumerate(powers)]
        unsolved.append((path.stem, *_unsolved(people, rng)))
        photos = cohort.index.images.pick(people.first_image)  # this test takes one of each patient
        single = people._replace(distances=mean_cosine_distance(photos, photos))
        np.fill_diagonal(single.distances, 0)
        known += [(path.stem, size, *_against_known(single, size, rng)) for size in SIZES]
    print("\n| data | pairs with one disorder found (%) | wrong among those found (%) |\n|---|---|---|")
    print("\n".join(f"| {data} | {found:.1f} | {wrong:.1f} |" for data, found, wrong in unsolved))
    print("\n| data | patients | apart from the nearest disorder (%) | apart from their own (%) |\n|---|---|---|---|")
    print("\n".join(f"| {data} | {size} | {new:.0f} | {own:.1f} |" for data, size, new, own in known))
    print("\n| data | disorder |", " | ".join(f"{size} patients (%)" for size in SIZES), "|\n|---|---|---|---|---|")
    for data, disorder in dict.fromkeys((line[0], line[2]) for line in lines):
        cells = [f"{line[3]:.0f}" for line in lines if (line[0], line[2]) == (data, disorder)]
        print(f"| {data} | {disorder} | {' | '.join(cells)} |")


def _detections(people: Controls, size: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Of each disorder: cohorts of its patients, against all others; and intervals that hold the mean of all of it."""
    found = []
    for disorder in np.unique(people.disorder_of_patient):
        inside = np.flatnonzero(people.disorder_of_patient == disorder)
        drawn = _drawn(people, people.disorder_of_patient != disorder, size, rng)
        truth, hits, held = mean_within(people.distances[np.ix_(inside, inside)]), 0, 0
        for _ in range(COHORTS):
            members = rng.choice(inside, size, replace=False)
            own = people.distances[np.ix_(members, members)]
            low, high = jackknife_interval(own) or (0.0, 2.0)
            hits, held = hits + (chance(drawn, mean_within(own)) < 0.05), held + (low <= truth <= high)
        found.append((100 * hits / COHORTS, 100 * held / COHORTS))
    return found


def _against_known(people: Controls, size: int, rng: np.random.Generator) -> tuple[float, float]:
    """Cohorts that are closer to each other than to patients of the nearest other disorder, and of their own.

    In percent, at p < 0.05 and a smaller mean distance within the cohort.
    """
    found: dict[bool, list[bool]] = {True: [], False: []}
    disorders = np.unique(people.disorder_of_patient)
    for disorder in disorders:
        for _ in range(COHORTS):
            members = rng.choice(np.flatnonzero(people.disorder_of_patient == disorder), size, replace=False)
            others = {each: np.flatnonzero(people.disorder_of_patient == each) for each in disorders}
            far = {
                each: people.distances[np.ix_(members, of)].mean() for each, of in others.items() if each != disorder
            }
            for own, compared in ((True, disorder), (False, min(far, key=far.__getitem__))):
                places = np.concatenate([members, np.setdiff1d(others[compared], members)])
                distances, inside = people.distances[np.ix_(places, places)], np.arange(len(places)) < size
                apart = separation(distances, inside, rng=rng, others_alike=True)
                within = mean_within(distances[:size, :size])
                found[own].append(apart.p_value < 0.05 and within < apart.between)
    return 100 * float(np.mean(found[False])), 100 * float(np.mean(found[True]))


def _unsolved(people: Controls, rng: np.random.Generator) -> tuple[float, float]:
    """Three patients of each of three disorders that the gallery lacks, and one of each other: which pairs are found?

    The share of pairs with one disorder that are found, and that of found pairs with two, in percent.
    """
    disorder_of, found, wrong = people.disorder_of_patient, [], []
    for _ in range(UNSOLVED):
        order = rng.permutation(np.unique(disorder_of))
        sizes = np.where(np.arange(len(order)) < 3, 3, 1).tolist()
        chosen = zip(order, sizes, strict=True)
        members = np.concatenate([rng.choice(np.flatnonzero(disorder_of == d), n, replace=False) for d, n in chosen])
        rest = np.setdiff1d(np.flatnonzero(~np.isin(disorder_of, order[:3])), members)
        one, other = (members[side] for side in np.triu_indices(len(members), 1))
        controls = people.distances[np.ix_(rest, rest)]
        p_values = chance_of_pairs(people.distances[one, other], controls, disorder_of[rest])
        close, same = false_discovery_control(p_values) <= FALSE_DISCOVERIES, disorder_of[one] == disorder_of[other]
        found.append(close[same].mean())
        wrong.append((close & ~same).sum() / max(1, close.sum()))
    return 100 * float(np.mean(found)), 100 * float(np.mean(wrong))


def _mixed(people: Controls, size: int, rng: np.random.Generator) -> np.ndarray:
    """The p-values of cohorts drawn as chance draws them, against everybody else."""
    p_values = []
    for members in random_groups(people.disorder_of_patient, size, MIXED, rng=rng):
        others = ~np.isin(np.arange(len(people.patients)), members)
        drawn = _drawn(people, others, size, rng)
        p_values.append(chance(drawn, mean_within(people.distances[np.ix_(members, members)])))
    return np.array(p_values)


def _drawn(people: Controls, gallery: Bools, size: int, rng: np.random.Generator) -> np.ndarray:
    places: Ints = np.flatnonzero(gallery)
    groups = random_groups(people.disorder_of_patient[places], size, DRAWS, rng=rng)
    return means_within(people.distances, places[groups])[0]


if __name__ == "__main__":
    main()
