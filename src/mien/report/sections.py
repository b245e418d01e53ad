"""The sections of the report: for each experiment its text, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Section(NamedTuple):
    """One section of the report. `read` explains the figures; results are in tables and findings."""

    title: str
    paper: str  # its place in the paper, with which the `where` of its findings begins
    read: str
    figures: tuple[str, ...]
    tables: Mapping[str, str]  # name: title


SECTIONS = (
    Section(
        "The method on one patient",
        "Figure 1",
        "A: one photo, and the nearest gallery photo of each disorder. B1: the photos averaged. B2: each disorder as "
        "one point, the mean of its patients. B3: the lists of A and of the full method with distances; the true "
        "disorder is bold. The patient was chosen by a rule: of all patients of GMDB-Multi-Freq whose true disorder "
        "ranks higher by the full method than by their middle photo (of two the worse one), the one with the median "
        "gain, ranks beyond 30 counted as 30, in the gallery of the first fold. The plane tells the centroids apart; "
        "distances in it are not those of the lists.",
        ("overview",),
        {"overview": "The lists of all panels"},
    ),
    Section(
        "How good is the full method?",
        "Figure 3",
        "How often the true disorder is among the first N of the list, averaged over disorders. Between the dashed and "
        "the thick line lies what aggregation changes with the same encoder.",
        ("headline",),
        {"headline": "Accuracy of each level, and of both"},
    ),
    Section(
        "Who is in the study?",
        "Table 1",
        "Images, patients and disorders of each part; where folds differ, their mean ± standard deviation.",
        (),
        {"splits": "Counts of each part"},
    ),
    Section(
        "Patient-level aggregation",
        "Table 2",
        "Patients with several photos, nearest-neighbor retrieval in the unified gallery. Bold: the best of each set.",
        (),
        {"patient_aggregation": "Accuracy of each way to combine photos"},
    ),
    Section(
        "Disorder-level aggregation and hybrid scoring",
        "Table 3",
        "Each photo alone, in the unified gallery. Bold: the best of each set.",
        (),
        {"disorder_aggregation": "Accuracy of each score"},
    ),
    Section(
        "Whose rank improves, whose worsens?",
        "Figure 4",
        "Each band follows the same patients as one component after the other is added. Green: the true disorder "
        "stands higher in the list than with the baseline. Red: lower. Ranks beyond 30 count as 30. Right of the "
        "dotted line: embedding-level fusion alone, without centroids.",
        ("rank_changes",),
        {"rank_changes": "Share of patients at each stage"},
    ),
    Section(
        "A map of the gallery",
        "Figure 2",
        "All images of the ten most frequent disorders of the GMDB-Freq gallery (circles) and of ten less frequent "
        "ones (diamonds), drawn at random from its smaller half; crosses are patient-weighted disorder centroids.",
        ("tsne",),
        {},
    ),
    Section(
        "Distances within and between disorders",
        "S2",
        "Pairs of gallery images, the same number for each disorder. Where the curves overlap, two images of one "
        "disorder are as far apart as two of different ones.",
        ("distances",),
        {"distances": "Each group of pairs"},
    ),
    Section(
        "Growth of the database",
        "S3",
        "The paper draws its releases from v1.0.0 (July 2021) to v1.1.4 (May 2026: 15,381 images, 11,548 patients, 710 "
        "disorders). The tables of this study give what stands below. Earlier versions are drawn here where a list of "
        "them is given with --versions.",
        ("growth",),
        {"database_size": "This study's tables", "growth": "Each version"},
    ),
    Section(
        "Lambda, chosen on the validation images",
        "S4.1",
        "What each weight λ of the centroid gains over nearest-neighbor scoring, each validation image alone. The red "
        "line weighs the four list lengths; its maximum is chosen. The paper does not say over what its gain of "
        "patient-weighted centroids ranges: here it ranges over the galleries of the folds.",
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
        "Looked at afterwards, on the test sets: diamonds mark the best λ of each set, crosses the chosen one. The "
        "table has the spread of the red line on the paper's plateau, and by how much it falls anywhere: a curve that "
        "rises throughout does not fall.",
        ("lambda_sensitivity",),
        {"best_lambda": "Best λ of each test set, and the shape of its curve"},
    ),
    Section(
        "What does one more photo add?",
        "S5",
        "Within one panel the patients stay the same, and only the number of their images that are used grows. The "
        "grey line, one image at random, is the control.",
        ("number_of_images",),
        {"number_of_images": "Accuracy over the number of images"},
    ),
    Section(
        "Fusion against the best single image",
        "S6",
        "The oracle picks, with the answer in hand, the image that ranks the true disorder best; each score has its "
        "own.",
        ("oracle",),
        {
            "oracle": "Accuracy of each approach, nearest neighbor",
            "oracle_per_patient": "Share of patients, against their best image",
            "oracle_scores": "Every other score, beside its own oracle",
        },
    ),
    Section(
        "Who gains from centroids?",
        "S7",
        "Test patients in five groups, by the number of gallery images of their disorder: few at the left, many at the "
        "right.",
        ("gallery_size",),
        {"gallery_size": "Accuracy in each group"},
    ),
    Section(
        "Every combination",
        "S8",
        "All twelve combinations of fusion and score. Green is better than the baseline (first row), red is worse; the "
        "last row is the full method. First the unified gallery, then the split galleries: each set against its own.",
        ("ablation_unified", "ablation_split"),
        {"ablation": "Accuracy of all combinations"},
    ),
    Section(
        "What goes with the gain from fusion?",
        "S9",
        "Correlations between properties of a patient and the gain from fusing the images, with 95 % intervals. Inside "
        "the shaded band nothing should be read into them. Preliminary, as the paper says of its own.",
        ("confounders",),
        {"confounders": "All correlations"},
    ),
    Section(
        "Proportional nearest-neighbor scoring",
        "S10",
        "Instead of the nearest image, the mean of the nearest share alpha of a disorder's images. Below: the "
        "difference to the single-image baseline. The second figure has the same inside the hybrid, and the "
        "difference to the plain hybrid, on the same scale.",
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
    Section(
        "Beyond the paper: weights that fit the gallery's sizes",
        "Beyond",
        "Not in the paper. The score size-aware adds offset x ln(gallery patients) to the full method's distance; with "
        "an offset of 0 it is the full method. The curves show what each set gains or loses by it. How sure answers "
        "are is measured by mien evaluate --calibration.",
        ("size_offset",),
        {"size_offset": "Accuracy at each offset"},
    ),
)
