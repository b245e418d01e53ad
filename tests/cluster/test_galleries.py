"""Galleries on a cluster answer as one gallery here does."""

import json
import shutil
import time

import pytest

from mien import Gallery, Query, rank
from mien.answers.examination import examine
from mien.cluster.connection import connected
from mien.cluster.galleries import open_galleries
from mien.cluster.workers import Cluster
from mien.errors import EmptyGalleryError, GalleryError
from mien.storage.sharded import ShardedGallery

from clusters import kill_a_worker, sharded
from cohorts import random_cohort, random_query_arrays
from scores import ALL_METHODS


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=12, dimensions=16)


def queries_of(rng, cohort):
    return [*cohort.queries()[:3], *(Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 3))]


def test_rankings_are_those_of_one_gallery_also_after_a_worker_is_lost(cluster_to_break, rng, cohort, tmp_path):
    gallery = open_galleries(cluster_to_break, sharded(cohort, tmp_path, 3))
    queries = queries_of(rng, cohort)
    expected = rank(cohort, queries, top=None)
    assert rank(gallery, queries, top=None) == expected
    assert examine(gallery, queries[-1]) == examine(cohort, queries[-1])
    assert gallery.as_dict()["images"] == len(cohort.roster.image_ids)
    kill_a_worker(cluster_to_break)
    assert rank(gallery, queries, top=None) == expected
    assert [shard["generation"] for shard in gallery.as_dict()["shards"]] == [1, 1, 1]


@pytest.mark.long
def test_every_method_ranks_as_on_one_gallery(cluster, rng, cohort, tmp_path):
    gallery = open_galleries(cluster, sharded(cohort, tmp_path, 3))
    queries = queries_of(rng, cohort)[2:]  # one of them is in the gallery
    for method in ALL_METHODS:
        assert rank(gallery, queries, method, top=4) == rank(cohort, queries, method, top=4)


@pytest.mark.long
def test_a_gallery_that_changes_meanwhile_is_not_mixed_up(cluster_to_break, rng, cohort, tmp_path):
    directories = sharded(cohort, tmp_path, 2)
    gallery = open_galleries(cluster_to_break, directories)
    queries = queries_of(rng, cohort)
    expected = rank(gallery, queries)
    for directory in directories:
        Gallery.remove_patients(directory, [Gallery.open(directory).roster.patient_ids[0]])
    assert rank(gallery, queries) == expected  # as it was when it was opened
    kill_a_worker(cluster_to_break)
    with pytest.raises(GalleryError, match=r"part-\d: the gallery was changed in the middle of the work: ask again"):
        rank(gallery, queries)


@pytest.mark.long
def test_a_gallery_that_was_built_anew_is_another_one(cluster_to_break, rng, cohort, tmp_path):
    directories = sharded(cohort, tmp_path, 2)
    gallery = open_galleries(cluster_to_break, directories)
    for directory in directories:
        shutil.rmtree(directory)
    sharded(random_cohort(rng, disorders=3, dimensions=16), tmp_path, 2)  # of generation 1 again
    kill_a_worker(cluster_to_break)
    with pytest.raises(GalleryError, match="was changed in the middle of the work"):
        rank(gallery, queries_of(rng, cohort))


@pytest.mark.long
def test_a_worker_that_leaves_is_not_waited_for(rng, cohort, tmp_path):
    queries = queries_of(rng, cohort)
    with connected("local") as cluster:
        gallery = open_galleries(cluster, sharded(cohort, tmp_path, 2))
        cluster.client.retire_workers([cluster.workers[0]], close_workers=False)
        assert rank(gallery, queries) == rank(cohort, queries)


@pytest.mark.long
def test_a_worker_that_dies_with_its_answer_is_asked_again(cluster_to_break, rng, cohort, tmp_path, monkeypatch):
    monkeypatch.setattr("mien.cluster.workers.SECONDS_TO_FETCH", 1)
    gallery = open_galleries(cluster_to_break, sharded(cohort, tmp_path, 2))
    waited, times = Cluster.wait_for, []

    def killing(cluster_to_break, futures):
        ready = waited(cluster_to_break, futures)
        times.append(ready)
        if times == [True]:
            kill_a_worker(cluster_to_break)
            time.sleep(0.5)
        return ready

    monkeypatch.setattr(Cluster, "wait_for", killing)
    query = Query.of(random_query_arrays(rng, cohort, 2))
    assert rank(gallery, query) == rank(cohort, query)


def test_an_empty_gallery_among_others_is_no_matter(cluster, rng, cohort, tmp_path):
    directories = sharded(cohort, tmp_path, 2)
    Gallery.remove_patients(directories[1], Gallery.open(directories[1]).roster.patient_ids)
    rest = Gallery.open(directories[0])
    query = Query.of(random_query_arrays(rng, cohort, 2))
    for gallery in (ShardedGallery.open(directories), open_galleries(cluster, directories)):
        assert rank(gallery, query) == rank(rest, query)
        assert [shard["generation"] for shard in gallery.as_dict()["shards"]] == [1, 2]
    with pytest.raises(GalleryError, match="is given twice"):
        open_galleries(cluster, [directories[0], directories[0] / ".." / directories[0].name])


def test_what_is_wrong_with_a_gallery_is_said_with_the_worker_that_sees_it(cluster, cohort, tmp_path):
    with pytest.raises(GalleryError, match=r"on worker \S+: .*nowhere holds no gallery"):
        open_galleries(cluster, [tmp_path / "nowhere"])
    [whole] = sharded(cohort, tmp_path, 1)
    Gallery.remove_patients(whole, cohort.roster.patient_ids)
    with pytest.raises(EmptyGalleryError, match="part-0: the galleries hold no images"):
        open_galleries(cluster, [whole])


def test_rank_takes_several_galleries_here_and_on_a_cluster(mien, cohort, tmp_path):
    from mien.storage.formats.cohort_parquet import write_encodings_parquet

    directories = sharded(cohort, tmp_path, 2)
    encodings = tmp_path / "queries.parquet"
    write_encodings_parquet(encodings, cohort.queries()[0].encodings, lambda _done, _all: None)
    whole = tmp_path / "whole"
    Gallery.build(whole, cohort)
    asked = ["rank", "--encodings", encodings, "--json", "--gallery"]
    answers = [
        mien(*asked, whole),
        mien(*asked, directories[0], "--gallery", directories[1]),
        mien(*asked, directories[0], "--gallery", directories[1], "--cluster", "local"),
    ]
    one, several, there = (json.loads(out) for _, out, _ in answers)
    assert [code for code, _, _ in answers] == [0, 0, 0]
    assert one["queries"] == several["queries"] == there["queries"]
    assert one["gallery"]["images"] == several["gallery"]["images"]
    assert several["gallery"] == there["gallery"]
    assert [shard["directory"] for shard in there["gallery"]["shards"]] == [str(path) for path in directories]
