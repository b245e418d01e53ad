"""Many uploads, half of them broken, while the gallery changes: every answer is right for its generation."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from mien import Cohort, Encodings, Gallery, Label, Query, rank
from mien.encoding.photo_encoder import Photo
from mien.simulation.photos import DrawnPerson
from mien.storage.index_files import MATRICES

from pictures import mutants, quarters, saved
from services import as_form, assert_problem, drawn_jpeg

QUERIES = 10


@contextmanager
def process(gallery, temporary, *arguments):
    """`mien serve` as people start it, with nowhere to leave a file but there."""
    command = [sys.executable, "-m", "mien", "serve", "--gallery", gallery, "--port", "0", *arguments]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=temporary
    )
    try:
        address = re.search(r"http://\S+(?=/)", server.stdout.readline())
        assert address, server.stderr.read()
        yield address[0]
    finally:
        server.terminate()
        _, said = server.communicate(timeout=30)
        assert server.returncode == 0, said
        assert {json.loads(line)["level"] for line in said.splitlines()} == {"info"}, said


@pytest.fixture(params=[24, pytest.param(200, marks=pytest.mark.long)], ids="{} uploads".format)
def uploads(request):
    return request.param


@pytest.fixture
def broken(people, rng, uploads):
    """What is not a photo of a face."""
    photo = people[1][0][0]
    no_face = saved(rng.integers(0, 255, (300, 300, 3), dtype=np.uint8), "JPEG")
    return [
        *mutants([photo, saved(quarters(), "PNG")], rng, uploads // 2 - 6),
        *(b"", b"text", b"GIF89a" + bytes(90), photo[: len(photo) // 2], no_face, saved(quarters(), "PNG")),
    ]


class Generations:
    """What the gallery holds in each generation, kept beside it."""

    def __init__(self, directory, encodings, labels):
        self.directory = directory
        self.encodings = encodings
        self.labels_of = {1: labels}

    def cohort(self, labels):
        rows = {image_id: row for row, image_id in enumerate(self.encodings.image_ids)}
        return Cohort.join(self.encodings.only(sorted(rows[label.image_id] for label in labels)), labels)

    def add(self, labels):
        self._next([*self.labels_of[max(self.labels_of)], *labels])
        Gallery.add(self.directory, self.cohort(labels))

    def remove(self, patient_id):
        self._next([label for label in self.labels_of[max(self.labels_of)] if label.patient_id != patient_id])
        Gallery.remove_patients(self.directory, [patient_id])

    def _next(self, labels):
        self.labels_of[max(self.labels_of) + 1] = labels  # known before it can be answered from


def test_uploads_while_the_gallery_changes(people, uploads, broken, photo_encoder, tmp_path, rng):
    directory, temporary = tmp_path / "gallery", tmp_path / "temporary"
    shutil.copytree(people[0], directory)
    temporary.mkdir()
    opened = Gallery.open(directory)
    new = [Photo(f"new-{number}.jpg", drawn_jpeg(DrawnPerson.drawn(rng), rng)) for number in range(4)]
    good = [people[1][number % len(people[1])][number % 3] for number in range(QUERIES)]
    encoded = photo_encoder.encodings_of(photo_encoder.encode(new))
    stored = opened.index.raw_embeddings(np.arange(len(opened.roster.image_ids)))
    everything = Encodings.of(
        [*opened.roster.image_ids, *encoded.image_ids],
        np.concatenate([stored, encoded.embeddings]),
        photo_encoder.encoder,
    )
    generations = Generations(directory, everything, opened.roster.labels())
    queries = photo_encoder.encodings_of(
        photo_encoder.encode([Photo(str(number), photo) for number, photo in enumerate(good)])
    )

    with (
        process(directory, temporary, "--embeddings-per-hour", "1000", "--requests-per-hour", "1000") as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):

        def upload(number):
            content = good[number // 2 % QUERIES] if number % 2 == 0 else broken[number // 2]
            return number, client.post("/v1/rank", files=as_form(content), data={"top": "all"})

        with ThreadPoolExecutor(6) as pool:
            answers = pool.map(upload, range(uploads))
            answered = [next(answers) for _ in range(uploads // 10)]
            generations.add([Label("new-0.jpg", "new 0", "d03"), Label("new-1.jpg", "new 1", "new disorder")])
            answered += [next(answers) for _ in range(uploads // 5)]
            generations.remove("patient 5")
            answered += [next(answers) for _ in range(uploads // 5)]
            generations.add([Label("new-2.jpg", "new 2", "d05"), Label("new-3.jpg", "new 2", "d05")])
            generations.remove("new 1")
            answered += list(answers)
        last = client.get("/v1/health").json()["generation"]

    assert last == max(generations.labels_of) == 5
    asked = [Query(queries.only([number])) for number in range(QUERIES)]
    rankings = {
        generation: rank(generations.cohort(labels), asked, top=None)
        for generation, labels in generations.labels_of.items()
    }
    used = set()
    for number, response in answered:
        if number % 2:
            assert_refused_or_seen(response)
            continue
        assert response.status_code == 200, response.text
        document = response.json()
        used.add(document["gallery"]["generation"])
        expected = rankings[document["gallery"]["generation"]][number // 2 % QUERIES]
        lines = document["queries"][0]["disorders"]
        assert [line["disorder_id"] for line in lines] == [line.disorder_id for line in expected.disorders]
        assert [line["distance"] for line in lines] == pytest.approx([x.distance for x in expected.disorders], abs=6e-4)
        assert [line["nearest_patient_id"] for line in lines] == [x.nearest_patient_id for x in expected.disorders]
    assert len(used) >= 3
    assert list(temporary.iterdir()) == []
    left = {re.sub(r"\d+", "N", path.name) for path in directory.iterdir()}
    database = {f"gallery.sqlite{part}" for part in ("", "-wal", "-shm")}
    assert left <= database | {"gallery.generation"} | {f"index-N.{part}" for part in ("json", *MATRICES)}


def assert_refused_or_seen(response):
    """A mutant may still be a photo of a face; whatever is refused has a reason."""
    if response.status_code != 200:
        assert_problem(response, 422, "invalid-photos")
