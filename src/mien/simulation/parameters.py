"""The parameters of the simulation, found by `scripts/calibrate.py` and rounded."""

from __future__ import annotations

from typing import NamedTuple


class Beta(NamedTuple):
    """A beta distribution by its mean and its concentration: the larger, the narrower."""

    mean: float
    concentration: float


class Parameters(NamedTuple):
    """Parameters of disorders, patients and photos. Lengths and shares refer to vectors of length one."""

    latent_dimensions: int = 150  # in which the encoder tells faces apart

    # disorders
    group_size: int = 7  # disorders in a group; they are easily confused with each other
    group_share: Beta = Beta(0.56, 4.0)  # of a disorder's direction, what its group shares
    families: int = 40  # of groups, which resemble each other a little
    family_share: float = 0.487  # of a group's direction, what its family shares
    subtypes: int = 5  # kinds of faces of one disorder
    subtype_share: float = 0.231  # of a patient's direction, what the subtype decides, if fifteen have the disorder
    spread_growth: float = 0.281  # how the logit of that share rises with the logarithm of the number of patients
    distinctiveness: float = 0.227  # how differently much disorders explain of an unseen face (standard deviation, log)
    trained_distinctiveness: float = 0.072  # the same for faces that the encoder was trained on
    rare_distinctiveness: float = 0.464  # and for those of rare disorders

    # patients: length of the disorder's part in a photo
    trained_typicality: Beta = Beta(0.597, 22.5)  # faces that the encoder was trained on
    unseen_typicality: Beta = Beta(0.26, 31.0)  # the same disorders, faces that it has not seen: validation and test
    rare_typicality: Beta = Beta(0.4, 10.7)
    multi_unseen_typicality: Beta = Beta(0.27, 36.0)  # of test patients with several photos
    multi_rare_typicality: Beta = Beta(0.343, 57.0)
    patient_share: float = 0.46  # of the rest, what stays the same over the photos of a patient
    rare_patient_share: float = 0.445
    patient_shared_by_models: float = 0.869  # of that, what all models see

    # photos
    typicality_jitter: float = 0.165  # from photo to photo
    rare_jitter: float = 0.198
    trained_jitter: float = 0.158  # from photo to photo of a face that the encoder was trained on
    image_shared_by_models: float = 0.258  # of what changes with the photo, what all models see
    common: float = 0.11  # length of what all faces share
    view_noise: float = 0.02  # share of a representation that changes with flip and gray


PARAMETERS = Parameters()
