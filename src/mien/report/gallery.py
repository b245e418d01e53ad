"""Describes a gallery as plain values, for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from mien.storage.gallery import Gallery
from mien.version import TOOL


def gallery_document(gallery: Gallery) -> dict[str, Any]:
    """Counts of images, patients and disorders, and how they are spread."""
    roster = gallery.roster
    images_of_patient = np.bincount(roster.patient_of_image, minlength=len(roster.patient_ids))
    two_disorders = {
        int(roster.patient_of_image[image])
        for image, disorders in enumerate(roster.disorder_ids_of_image)
        if len(disorders) > 1
    }
    return {
        "tool": TOOL,
        **gallery.as_dict(),
        "patients_with_several_images": int((images_of_patient > 1).sum()),
        "patients_with_two_disorders": len(two_disorders),
        "patients_per_disorder": _spread(roster.patients_of_disorder),
        "images_per_disorder": _spread(roster.images_of_disorder),
        "learned": sorted(gallery.learned),
        "described_disorders": sum(one.disorder_id in gallery.descriptions for one in roster.disorders),
        "bytes_on_disk": sum(path.stat().st_size for path in gallery.directory.iterdir() if path.is_file()),
        "faces_kept": gallery.faces.count(),
    }


def description_document(gallery: Gallery) -> dict[str, Any]:
    """Which disorders of a gallery are described, with how many genes, and which are not."""
    descriptions = gallery.descriptions
    ids = [disorder.disorder_id for disorder in gallery.roster.disorders]
    described = [disorder_id for disorder_id in ids if disorder_id in descriptions]
    return {
        "described": len(described),
        "genes": len({gene for disorder_id in described for gene in descriptions[disorder_id].genes}),
        "without_gene": [disorder_id for disorder_id in described if not descriptions[disorder_id].genes],
        "not_described": [disorder_id for disorder_id in ids if disorder_id not in descriptions],
        "not_in_gallery": sorted(descriptions.keys() - set(ids)),
    }


def _spread(counts: np.ndarray) -> dict[str, float] | None:
    if not len(counts):
        return None
    return {"smallest": int(counts.min()), "median": float(np.median(counts)), "largest": int(counts.max())}
