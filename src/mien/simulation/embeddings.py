"""Simulates embeddings of patients.

In the latent space of each model, a photo is a sum of three parts: what all faces share; the direction of its disorder,
as far as the patient is typical; and a residual, which belongs partly to the patient and partly to the photo. A random
rotation per model takes it to the encoder's dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtri

from mien.core.arrays import Float32s, Float64s, Ints
from mien.simulation.parameters import Beta, Parameters
from mien.simulation.patients import FREQUENT_DISORDERS, RARE_DISORDERS, Patients

Space = dict[str, Float64s]  # what all faces share, and each model's rotation

MODELS, VIEWS, DIMENSIONS = 3, 4, 512
USUAL_SIZE = 15  # patients of a frequent disorder
LENGTH, LENGTH_SPREAD = 20.0, 0.15  # of raw embeddings: the paper does not normalise them


class Layout(NamedTuple):
    """The shape of an embedding. The calibration takes a smaller one, with the same distances."""

    views: int = VIEWS
    dimensions: int | None = DIMENSIONS  # None: the latent space itself


GM_ARC = Layout()
STEPS = (0.7548776662466927, 0.5698402909980532)  # 1 / 1.3247... and its square, see `_evenly_spread`


def simulated_embeddings(
    patients: Patients,
    parameters: Parameters,
    *,
    rng: np.random.Generator,
    layout: Layout = GM_ARC,
    space: Space | None = None,
) -> Float32s:
    """Raw embeddings (images, models x views, dimensions), patients one after the other.

    The random numbers do not depend on the parameters, so that a search over them is smooth. Patients of several
    calls can be compared if all calls share a `space`, which the first call fills.
    """
    space = {} if space is None else space
    size = parameters.latent_dimensions
    patient_of_image = np.repeat(np.arange(len(patients.images)), patients.images)
    directions = _patient_directions(patients, parameters, rng)
    typicality = _typicality(patients, parameters, rng, patient_of_image)
    common = space.setdefault("common", _unit(rng, 1, size))
    rare = (np.array(patients.role) == "rare")[patient_of_image, np.newaxis]
    patient_share = np.where(rare, parameters.rare_patient_share, parameters.patient_share)
    of_patient, of_image = _unit(rng, len(patients.images), size), _unit(rng, len(patient_of_image), size)
    rest = np.sqrt(1 - typicality**2)[:, np.newaxis]
    shared = parameters.common * common + typicality[:, np.newaxis] * directions[patient_of_image]
    embeddings = np.empty((len(patient_of_image), MODELS * layout.views, layout.dimensions or size), dtype=np.float32)
    for model in range(MODELS):
        patient = _mixed_noise(of_patient, _unit(rng, *of_patient.shape), parameters.patient_shared_by_models)
        image = _mixed_noise(of_image, _unit(rng, *of_image.shape), parameters.image_shared_by_models)
        seen = shared + rest * _mixed_noise(patient[patient_of_image], image, patient_share)
        drawn = _rotation(rng, size, layout.dimensions) if layout.dimensions else np.eye(size)
        rotation = space.setdefault(f"rotation of model {model}", drawn)
        for view in range(layout.views):
            noise = _unit(rng, len(seen), size)
            viewed = _mixed_noise(noise, seen, parameters.view_noise)
            lengths = LENGTH * np.exp(LENGTH_SPREAD * rng.standard_normal((len(seen), 1)))
            embeddings[:, model * layout.views + view] = (lengths * viewed) @ rotation
    return embeddings


def _patient_directions(patients: Patients, parameters: Parameters, rng: np.random.Generator) -> Float64s:
    """The direction of each patient's disorder, mixed with that of the subtype."""
    size, disorders = parameters.latent_dimensions, FREQUENT_DISORDERS + RARE_DISORDERS
    groups = -(-disorders // parameters.group_size)
    shuffled = [rng.permutation(groups) for _ in range(parameters.group_size)]  # similar disorders to different groups
    group_of_disorder = np.empty(disorders, dtype=np.intp)
    group_of_disorder[_disorders_in_order(patients)] = np.concatenate(shuffled)[:disorders]
    family_of_group = rng.integers(parameters.families, size=groups)
    families = _unit(rng, parameters.families, size)
    own_of_group = _unit(rng, groups, size)
    group = _mixed(families[family_of_group], own_of_group, np.full(groups, parameters.family_share))
    share = _beta(_evenly_spread(rng, groups, STEPS[0]), parameters.group_share)
    disorder = _mixed(group[group_of_disorder], _unit(rng, disorders, size), share[group_of_disorder])
    subtypes = _unit(rng, disorders * parameters.subtypes, size)
    subtype = patients.disorder * parameters.subtypes + rng.integers(parameters.subtypes, size=len(patients.disorder))
    grown = np.log(np.maximum(1, np.bincount(patients.disorder, minlength=disorders)) / USUAL_SIZE)
    bend = expit(logit(parameters.subtype_share) + parameters.spread_growth * grown)
    directions = _mixed(subtypes[subtype], disorder[patients.disorder], bend[patients.disorder])
    for patient, person in patients.same_person_as.items():  # a person with two disorders has the mean direction
        directions[person] = _mixed(directions[[patient]], directions[[person]], np.array([0.5]))
    return directions


def _typicality(
    patients: Patients, parameters: Parameters, rng: np.random.Generator, patient_of_image: Ints
) -> Float64s:
    """The length of the disorder's part in each photo."""
    role = np.array(patients.role)
    trained, rare = role == "train", role == "rare"
    several = patients.images > 1
    uniform = np.zeros(len(role))
    for name in ("train", "validation", "test", "rare"):
        for multi in (False, True):
            inside = (role == name) & (several == multi)
            uniform[inside] = _evenly_spread(rng, int(inside.sum()), STEPS[0])
    of_patient = np.zeros(len(role))
    for inside, beta in (
        (trained, parameters.trained_typicality),
        ((role == "validation") | ((role == "test") & ~several), parameters.unseen_typicality),
        ((role == "test") & several, parameters.multi_unseen_typicality),
        (rare & ~several, parameters.rare_typicality),
        (rare & several, parameters.multi_rare_typicality),
    ):
        of_patient[inside] = _beta(uniform[inside], beta)
    spread = np.empty(FREQUENT_DISORDERS + RARE_DISORDERS)
    spread[_disorders_in_order(patients)] = ndtri(_evenly_spread(rng, len(spread), STEPS[1]))
    distinct_of_role = parameters.trained_distinctiveness, parameters.rare_distinctiveness
    distinct = np.select((trained, rare), distinct_of_role, parameters.distinctiveness)
    of_patient *= np.exp(distinct * spread[patients.disorder] - distinct**2 / 2)
    jitter_of_role = parameters.trained_jitter, parameters.rare_jitter
    jitter = np.select((trained, rare), jitter_of_role, parameters.typicality_jitter)[patient_of_image]
    of_image = of_patient[patient_of_image] * (1 + jitter * rng.standard_normal(len(patient_of_image)))
    return np.clip(of_image, 0.0, 0.95)


def _disorders_in_order(patients: Patients) -> Ints:
    """All disorders in order: frequent before rare, and in each those with multi-photo test patients first."""
    several = (patients.images > 1) & np.isin(patients.role, ("test", "rare"))
    disorders = np.arange(FREQUENT_DISORDERS + RARE_DISORDERS)
    return np.lexsort((disorders, ~np.isin(disorders, patients.disorder[several]), disorders >= FREQUENT_DISORDERS))


def _mixed(shared: Float64s, own: Float64s, share: Float64s) -> Float64s:
    """Unit vectors, mixed of shared and own directions; `share` is the weight of the shared one."""
    return _of_length_one(_mixed_noise(shared, own, share[:, np.newaxis]))


def _mixed_noise(shared: Float64s, own: Float64s, share: float | Float64s) -> Float64s:
    return np.sqrt(share) * shared + np.sqrt(1 - share) * own


def _unit(rng: np.random.Generator, count: int, size: int) -> Float64s:
    return _of_length_one(rng.standard_normal((count, size)))


def _of_length_one(vectors: Float64s) -> Float64s:
    unit: Float64s = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _evenly_spread(rng: np.random.Generator, count: int, step: float) -> Float64s:
    """Numbers between 0 and 1 that are spread evenly, so that all simulated databases resemble each other.

    Two such sequences with different steps are spread evenly together.
    """
    return np.clip((rng.random() + step * np.arange(count)) % 1, 1e-9, 1 - 1e-9)


def _beta(uniform: Float64s, beta: Beta) -> Float64s:
    quantiles: Float64s = betaincinv(beta.mean * beta.concentration, (1 - beta.mean) * beta.concentration, uniform)
    return quantiles


def _rotation(rng: np.random.Generator, size: int, dimensions: int) -> Float64s:
    """Orthonormal rows (size, dimensions)."""
    return np.linalg.qr(rng.standard_normal((dimensions, size)))[0].T
