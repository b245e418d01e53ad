"""What the report says of each experiment: its title, what to see in it, its figures and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Section(NamedTuple):
    """One part of the report."""

    title: str
    paper: str  # where the paper has it
    see: str
    figures: tuple[str, ...]
    tables: Mapping[str, str]  # name: title


SECTIONS = (
    Section(
        "The method on one patient",
        "Figure 1",
        "One patient with several photos. A: the photo with the middle rank (of two the worse one), compared with the "
        "nearest gallery photo of each disorder. B1: the photos averaged. B2: each disorder as one point, the mean of "
        "its patients. B3: the list of A, and the list of the full method, with distances; the true disorder is bold. "
        "The patient was chosen by a rule: of all patients of GMDB-Multi-Freq who gain from A to B3, the one with the "
        "median gain, in the gallery of the first fold. The plane tells the centroids apart; distances in it are not "
        "those of the lists.",
        ("overview",),
        {"overview": "The lists of all panels"},
    ),
    Section(
        "How good is the full method?",
        "Figure 3",
        "How often the true disorder is among the first N of the list, averaged over disorders. The thick line is the "
        "full method, the dashed one the baseline; the distance between the two is what aggregation gains with the "
        "same encoder.",
        ("headline",),
        {"headline": "Accuracy of each level, and of both"},
    ),
    Section(
        "Who is in the study?",
        "Table 1",
        "Images, patients and disorders of each part; where folds differ, their mean and standard deviation.",
        (),
        {"splits": "Counts of each part"},
    ),
    Section(
        "Several photos of one patient",
        "Table 2",
        "Patients with several photos, nearest-photo retrieval: one photo alone, distances averaged over photos, and "
        "photos averaged before the comparison.",
        (),
        {"patient_aggregation": "Accuracy of each way to combine photos"},
    ),
    Section(
        "Disorders as centroids",
        "Table 3",
        "Each photo alone: the nearest photo of a disorder, the mean of its photos, the mean of its patients, and the "
        "hybrid of nearest photo and patient-weighted centroid.",
        (),
        {"disorder_aggregation": "Accuracy of each score"},
    ),
    Section(
        "Whose rank improves, whose worsens?",
        "Figure 4",
        "Each band follows the same patients as one component after the other is added. Green: the true disorder "
        "stands higher in the list than with the baseline. Red: lower. Ranks beyond 30 count as 30. Right of the "
        "dotted line: embedding-level fusion alone, without centroids; it cannot move a patient with one photo.",
        ("rank_changes",),
        {"rank_changes": "Share of patients at each stage"},
    ),
    Section(
        "A map of the gallery",
        "Figure 2",
        "All photos of the ten most frequent disorders of the gallery (circles) and of ten less frequent ones "
        "(diamonds), drawn from its smaller half; crosses are patient-weighted disorder centroids. Where colours mix, "
        "the nearest photo of a photo can belong to another disorder.",
        ("tsne",),
        {},
    ),
    Section(
        "Distances within and between disorders",
        "S2",
        "Two photos of one disorder are closer than two of different ones, on average. Where the curves overlap, a "
        "single nearest photo misleads; the overlap is larger for rare disorders.",
        ("distances",),
        {"distances": "Each group of pairs"},
    ),
    Section(
        "Growth of the database",
        "S3",
        "The paper draws its releases from v1.0.0 (July 2021) to v1.1.4 (May 2026: 15,381 images, 11,548 patients, 710 "
        "disorders). A list of versions can be given with --versions; each is then drawn here.",
        ("growth",),
        {"database_size": "This study's tables", "growth": "Each version"},
    ),
    Section(
        "Lambda, chosen on the validation images",
        "S4.1",
        "What each weight of the centroid gains over the nearest photo alone. The red line weighs the four list "
        "lengths; its maximum is the chosen lambda.",
        ("lambda_selection",),
        {
            "lambda_selection": "Accuracy on the validation images",
            "best_on_validation": "Best λ of each measure",
            "validation_centroids": "Both centroids on the validation images",
            "centroid_gains": "Gain of patient-weighted over image-weighted centroids",
        },
    ),
    Section(
        "How much depends on lambda?",
        "S4.2",
        "Looked at afterwards, on the test sets: diamonds mark the best lambda of each set, crosses the chosen one. A "
        "broad plateau means that the choice is not delicate.",
        ("lambda_sensitivity",),
        {"best_lambda": "Best λ of each test set"},
    ),
    Section(
        "What does one more photo add?",
        "S5",
        "Within one panel the patients stay the same, and only the number of their photos that are used grows. A flat "
        "grey line (one photo) shows that the cohort is fair.",
        ("number_of_images",),
        {"number_of_images": "Accuracy over the number of photos"},
    ),
    Section(
        "Fusion against the best single photo",
        "S6",
        "The oracle picks, with the answer in hand, the photo that ranks the true disorder best. Fusion does not know "
        "the answer, and yet beats every single photo of some patients.",
        ("oracle",),
        {
            "oracle": "Accuracy of each approach, nearest photo",
            "oracle_per_patient": "Share of patients, against their best photo",
            "oracle_scores": "The same with every other score, each beside its own oracle",
        },
    ),
    Section(
        "Who gains from centroids?",
        "S7",
        "Test patients in five groups, by the number of gallery photos of their disorder: few at the left, many at the "
        "right. Centroids help most where there are few.",
        ("gallery_size",),
        {"gallery_size": "Accuracy in each group"},
    ),
    Section(
        "Every combination",
        "S8",
        "All twelve combinations of fusion and score. Green is better than the baseline (first row), red is worse; the "
        "last row is the full method. First the unified gallery, then each set against its own gallery.",
        ("ablation_unified", "ablation_split"),
        {"ablation": "Accuracy of all combinations"},
    ),
    Section(
        "What goes with the gain from fusion?",
        "S9",
        "Correlations between properties of a patient and the gain from fusing the photos, with 95 % intervals. Inside "
        "the shaded band nothing should be read into them. Preliminary, as in the paper.",
        ("confounders",),
        {"confounders": "All correlations"},
    ),
    Section(
        "A share of each disorder's photos",
        "S10",
        "Instead of the nearest photo alone, the mean of the nearest share alpha of a disorder's photos. Below: the "
        "difference to the nearest photo alone. The second figure has the same inside the hybrid, and the difference "
        "to the plain hybrid, on the same scale.",
        ("proportional", "proportional_hybrid"),
        {"proportional": "Accuracy at each alpha", "proportional_hybrid": "The same inside the hybrid"},
    ),
    Section(
        "What was used",
        "Table S1",
        "The settings that the paper lists, and those of this run.",
        (),
        {"settings": "Each component"},
    ),
)
