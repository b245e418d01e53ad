"""Sex and age of each disorder's patients in words, so that a user sees whom a face is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median

from mien.core.roster import Roster
from mien.core.study import ImageFacts

FEWEST = 3  # patients whose sex or age is known; with fewer, the words would describe single patients


def sex_and_age_in_words(roster: Roster, facts_of_image: Mapping[str, ImageFacts]) -> dict[str, str]:
    """Sex of the patients and ages on the photos, by disorder id; nothing where too little is known.

    >>> from mien.core.roster import Label
    >>> labels = [Label("1", "p", "A"), Label("2", "p", "A"), Label("3", "q", "A"), Label("4", "r", "A")]
    >>> facts = {"1": ImageFacts(2, "male"), "2": ImageFacts(4, "male"), "3": ImageFacts(9), "4": ImageFacts(3)}
    >>> sex_and_age_in_words(Roster.of_labels(labels), facts)
    {'A': '1 male, 2 not known; 2 to 9 years old on the photos, half of them under 3.5'}
    """
    found = {}
    for place, disorder in enumerate(roster.disorders):
        images = roster.images_with(place).tolist()
        known = [facts_of_image.get(roster.image_ids[image], ImageFacts()) for image in images]
        patients = roster.patient_of_image[images].tolist()
        sexes = {patient: facts.sex for patient, facts in zip(patients, known, strict=True) if facts.sex}
        ages = [facts.age_years for facts in known if facts.age_years is not None]
        told = {patient for patient, facts in zip(patients, known, strict=True) if facts != ImageFacts()}
        if len(told) < FEWEST:
            continue
        counts = Counter(sexes.values()) + Counter({"not known": len(set(patients)) - len(sexes)})
        words = ", ".join(f"{counts[sex]} {sex}" for sex in sorted(counts))
        if ages:
            words += (
                f"; {min(ages):.0f} to {max(ages):.0f} years old on the photos, half of them under {median(ages):g}"
            )
        found[disorder.disorder_id] = words
    return found
