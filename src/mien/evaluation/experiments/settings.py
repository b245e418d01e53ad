"""Table S1: what the paper used, and what is known of it here."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import FULL
from mien.evaluation.bootstrap import RESAMPLES
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments.splits import count

NOT_KNOWN = "not known: the encodings do not say"
PAPER = {  # as its table S1 and its section on metrics have it
    "Dataset version": "GMDB v1.1.4",
    "Training data": "GMDB-Freq training/validation split",
    "Primary gallery": "Unified GMDB-Freq+Rare gallery",
    "Loss function": "Class-weighted cross-entropy, weights scaled to 0.5-1.0",
    "Model ensemble": "m0: iResNet50 GM-Arc, m1: iResNet100 GM-Arc, m2: iResNet100 ArcFace trained on GLINT360K",
    "Face detection and alignment": "RetinaFace, aligned to the ArcFace five-landmark reference",
    "Encoder input": "112 x 112 px aligned face crop",
    "Test-time augmentation": "Unaugmented, grayscale, horizontal flip, both",
    "Image representations": "12 per image (3 models, 4 augmentations)",
    "Embedding normalization": "No explicit normalization of image embeddings, patient means or centroids",
    "Distance": "Cosine, averaged over representations",
    "Baseline scoring": "First occurrence of each disorder: k = 1 nearest neighbor",
    "Hybrid weight λ": "0.75, chosen on the validation set",
    "Classifier-head learning rate, weight decay": "m0 and m1: 1e-3, 5e-4",
    "Feature learning rate, weight decay": "m0: 5e-4, 5e-5; m1: 1e-3, 0",
    "Batch size": "m0: 64, m1: 128",
    "Optimizer and schedule": "Adam; halved on a plateau of 5 steps (threshold 5e-4), at least 1e-5",
    "Training epochs": "50, no early stopping or model selection",
    "Bootstrap": "4,000 resamples: disorders, then patients within them",
    "Random seeds": "not printed",
}


class Setting(NamedTuple):
    """One component."""

    component: str
    paper: str
    here: str


def run(context: ExperimentContext) -> Tables:
    """Whatever only the makers of the encodings know is said to be unknown."""
    study, encoder = context.study, context.study.encodings.encoder
    images, _, disorders = count((*study.folds[0].frequent.gallery, *study.folds[0].rare.gallery))
    unknown = "none: the embeddings are simulated" if study.simulated else NOT_KNOWN
    weights = f", weights {encoder.weights_sha256[:12]}" if encoder.weights_sha256 else ""
    here = {
        "Dataset version": study.source,
        "Primary gallery": f"All disorders together: {images:,} images, {disorders:,} disorders in the first fold",
        "Model ensemble": f"{encoder.name}{weights}" if encoder.name else NOT_KNOWN,
        "Test-time augmentation": ", ".join(encoder.representation_names or [unknown]),
        "Image representations": f"{encoder.representations} of {encoder.dimensions} dimensions",
        "Embedding normalization": "The encodings came normalised: centroids and fused photos are means of unit vectors"
        if study.encodings.normalised
        else "No normalization is applied",
        "Distance": PAPER["Distance"],
        "Baseline scoring": PAPER["Baseline scoring"],
        "Hybrid weight λ": f"{FULL.parameters['lambda']}, taken from the paper; S4.1 chooses it again",
        "Bootstrap": f"{RESAMPLES:,} resamples: disorders, then patients within them",
        "Random seeds": f"{context.seed}, for every random number of this run",
    }
    return {"settings": [Setting(component, paper, here.get(component, unknown)) for component, paper in PAPER.items()]}
