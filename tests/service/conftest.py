from __future__ import annotations

import shutil

import numpy as np
import pytest

from mien import Cohort, Disorder, Gallery, Label
from mien.encoding.photo_encoder import Photo
from mien.simulation.photos import DrawnPerson

from services import client_of, drawn_jpeg

PERSONS = 12
IN_GALLERY = 2  # photos of each person; the others are queries


@pytest.fixture
def gallery(tmp_path, small_gallery):
    """A small gallery of embeddings, to change."""
    return shutil.copytree(small_gallery, tmp_path / "gallery")


@pytest.fixture(scope="module")
def kept_gallery(tmp_path_factory, small_gallery):
    """The same, for all tests of a file, which leave it as it is."""
    return shutil.copytree(small_gallery, tmp_path_factory.mktemp("kept") / "gallery")


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
