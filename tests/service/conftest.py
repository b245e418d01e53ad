from __future__ import annotations

import shutil
from math import cos, sin

import numpy as np
import pytest

from mien import Cohort, Disorder, Gallery, Label
from mien.encoding.photo_encoder import Photo
from mien.service.galleries import ServedGallery
from mien.simulation.photos import DrawnPerson

from cohorts import random_cohort
from services import client_of, drawn_jpeg

PERSONS = 12
IN_GALLERY = 2  # photos of each person; the others are queries


@pytest.fixture(scope="session", autouse=True)
def real_map():
    """What draws maps: in tests they are circles, because another process would load scikit-learn for a second."""
    real = ServedGallery._draw

    async def circle(served):
        identity, disorders = served.opened_at, served.opened.roster.disorders
        served.map = {disorder.disorder_id: (cos(place), sin(place)) for place, disorder in enumerate(disorders)}
        served.map_of = identity

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServedGallery, "_draw", circle)
        yield real


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A small gallery of embeddings. Nobody opens it, because files come and go beside a database that is read."""
    directory = tmp_path_factory.mktemp("built") / "gallery"
    Gallery.build(directory, random_cohort(np.random.default_rng(20_26), disorders=8))
    return directory


@pytest.fixture
def gallery(tmp_path, built):
    """A copy of it."""
    return shutil.copytree(built, tmp_path / "gallery")


@pytest.fixture(scope="module")
def kept_gallery(tmp_path_factory, built):
    """A copy for all tests of a file, which leave it as it is."""
    return shutil.copytree(built, tmp_path_factory.mktemp("kept") / "gallery")


@pytest.fixture(scope="session")
def people(photo_encoder, tmp_path_factory):
    """A gallery of drawn persons, each with a disorder of their own, and photos of them that are not in it."""
    rng = np.random.default_rng(5)
    persons = [DrawnPerson.drawn(rng) for _ in range(PERSONS)]
    labels = [
        Label(f"{person}-{photo}.jpg", f"patient {person}", f"d{person:02}")
        for person in range(PERSONS)
        for photo in range(IN_GALLERY)
    ]
    photos = [
        Photo(f"{number}-{photo}.jpg", drawn_jpeg(person, rng))
        for number, person in enumerate(persons)
        for photo in range(IN_GALLERY)
    ]
    encodings = photo_encoder.encodings_of(photo_encoder.encode(photos))
    names = {f"d{person:02}": Disorder(f"d{person:02}", f"Drawn syndrome {person}") for person in range(PERSONS)}
    directory = tmp_path_factory.mktemp("people") / "gallery"
    Gallery.build(directory, Cohort.join(encodings, labels, names))
    return directory, [[drawn_jpeg(person, rng) for _ in range(3)] for person in persons]


@pytest.fixture(scope="module")
def client(kept_gallery):
    with client_of(kept_gallery) as client:
        yield client


@pytest.fixture(scope="module")
def photo_client(people):
    with client_of(people[0]) as client:
        yield client
