"""Studies on a cluster give what they give here."""

import json
from functools import partial

import pytest

from mien import BASELINE, Encodings, Method
from mien.cluster.studies import ImagesOnCluster
from mien.errors import InvalidStudyError
from mien.evaluation import distance_tables
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.folds import cohort_study
from mien.evaluation.results import evaluate
from mien.progress import silent
from mien.report.evaluation import evaluation_document
from mien.simulation.study import version
from mien.storage.formats.cohort_parquet import write_encodings_parquet
from mien.storage.formats.gmdb_folder import ENCODINGS, read_gmdb, write_gmdb

from clusters import kill_a_worker
from cohorts import random_cohort
from scores import SIZE_AWARE
from studies import small_gmdb

METHODS = (BASELINE, Method("embedding", "image-centroid"), Method("distance", SIZE_AWARE))


@pytest.fixture(scope="module")
def gmdb(tmp_path_factory):
    """A small simulated GMDB in its folder."""
    folder = tmp_path_factory.mktemp("gmdb")
    write_gmdb(folder, small_gmdb(1), version(1))
    return folder


@pytest.mark.long
def test_evaluate_on_a_simulated_gmdb_is_the_same_also_after_a_worker_is_lost(cluster_to_break, gmdb, monkeypatch):
    monkeypatch.setattr(distance_tables, "MOST_PROBES", 32)
    study, _ = read_gmdb(gmdb, gmdb / ENCODINGS)

    def document(**how):
        comparison = Comparison(study.encodings, evaluated_folds(study), methods=METHODS, **how)
        return evaluation_document(study, comparison, evaluate(comparison, METHODS, seed=1), seed=1, per_image=False)

    steps = []

    def killing(done, _all):
        steps.append(done)
        if len(steps) == 3:
            kill_a_worker(cluster_to_break)

    expected = document()
    places = ImagesOnCluster(cluster_to_break).of_file(gmdb / ENCODINGS)
    assert document(parts=places, progress=killing) == expected
    assert len(steps) > 4  # in the middle
    assert len(expected["results"]) == 24


@pytest.mark.long
def test_the_command_takes_a_cluster(mien, ten_syndromes):
    """As `mien rank` does, in test_galleries.py."""
    asked = partial(mien, "evaluate", "--cohort", ten_syndromes, "--folds", "2", "--json")
    (here, mine, _), (there, theirs, _) = asked(), asked("--cluster", "local")
    assert (here, there) == (0, 0)
    assert json.loads(theirs) == json.loads(mine)


def test_workers_that_find_other_embeddings_are_refused(cluster, rng, tmp_path):
    cohort = random_cohort(rng, disorders=4, most_patients=9)
    study = cohort_study(cohort, "cohort", seed=1, folds=2)
    file = tmp_path / "other.parquet"
    swapped = Encodings.of(cohort.roster.image_ids, cohort.embeddings[::-1])
    write_encodings_parquet(file, swapped, silent)
    places = ImagesOnCluster(cluster).of_file(file)
    with pytest.raises(InvalidStudyError, match=r"on worker \S+: the embeddings differ"):
        Comparison(study.encodings, evaluated_folds(study), methods=METHODS, parts=places)
