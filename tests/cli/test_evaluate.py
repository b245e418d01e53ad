from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from mien import Encodings, Label
from mien.core.study import Fold, ImageFacts, Split, Study
from mien.report.evaluation import NORMALISED
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb, version
from mien.storage.formats.cohort_parquet import write_cohort_parquet
from mien.storage.formats.gmdb_folder import read_gmdb, write_gmdb

from studies import with_few_disorders

PAIRS = [("freq", "split"), ("rare", "split"), ("freq", "unified"), ("rare", "unified")]


@pytest.fixture(scope="module")
def simulated_folder(tmp_path_factory):
    """Every fourth disorder of a simulated GMDB in its latent dimensions, two folds."""
    folder = tmp_path_factory.mktemp("simulated") / "gmdb"
    study = with_few_disorders(simulated_gmdb(5, layout=Layout(views=2, dimensions=None)), folds=2, one_of=4)
    write_gmdb(folder, study, version(5))
    return folder


def official_accuracies(folder):
    """The official evaluation, as published: cosine distance per representation, their mean, a sort, first occurrences.

    Reads the tables and encodings by itself. Returns {(test, gallery): [top-1, 5, 10, 30]} in per cent, the mean over
    disorders of the mean over their images; rare and unified galleries averaged over the splits.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    frame = pq.read_table(folder / "encodings.parquet")
    ids = [int(image_id) for image_id in frame["image_id"].to_pylist()]
    column = frame["embedding"].combine_chunks()
    encodings = column.flatten().flatten().to_numpy().reshape(len(ids), column.type.list_size, -1)
    row_of = {image_id: row for row, image_id in enumerate(ids)}

    def table(name):
        return pd.read_csv(next((folder / "gmdb_metadata").glob(f"gmdb_{name}_images_*.csv")))

    freq_gallery, freq_test, rare_gallery, rare_test = (
        table(f"{kind}_{side}") for kind in ("frequent", "rare") for side in ("gallery", "test")
    )

    def distances(test, gallery):
        total = np.zeros((len(test), len(gallery)))
        for r in range(encodings.shape[1]):
            a, b = (encodings[[row_of[i] for i in ids], r].astype(np.float64) for ids in (test, gallery))
            a /= np.linalg.norm(a, axis=1, keepdims=True)
            b /= np.linalg.norm(b, axis=1, keepdims=True)
            total += 1 - a @ b.T
        return total / encodings.shape[1]

    def guessed(test, gallery):
        """{N: accuracy} of one test table against one gallery table."""
        all_distances = distances(test["image_id"], gallery["image_id"])
        gallery_labels = gallery["label"].to_numpy()
        hits = {n: {} for n in (1, 5, 10, 30)}
        for row, label in zip(all_distances, test["label"], strict=True):
            order = list(dict.fromkeys(gallery_labels[np.argsort(row)].tolist()))
            place = order.index(label) + 1
            for n, of_disorder in hits.items():
                of_disorder.setdefault(label, []).append(place <= n)
        return [100 * np.mean([np.mean(h) for h in of_disorder.values()]) for of_disorder in hits.values()]

    found = {("freq", "split"): guessed(freq_test, freq_gallery)}
    several = {pair: [] for pair in PAIRS[1:]}
    for split in sorted(set(rare_test["split"])):
        gallery, test = rare_gallery[rare_gallery["split"] == split], rare_test[rare_test["split"] == split]
        unified = pd.concat([freq_gallery, gallery])
        several["rare", "split"].append(guessed(test, gallery))
        several["freq", "unified"].append(guessed(freq_test, unified))
        several["rare", "unified"].append(guessed(test, unified))
    return {**found, **{pair: np.mean(values, axis=0) for pair, values in several.items()}}


def test_the_older_measure_equals_the_official_procedure(mien, simulated_folder):
    code, out, _ = mien(
        *("evaluate", "--gmdb", simulated_folder, "--encodings", simulated_folder / "encodings.parquet"),
        *("--method", "baseline", "--per-image", "--json"),
    )
    assert code == 0
    results = {(result["set"], result["gallery"]): result for result in json.loads(out)["results"]}
    for pair, expected in official_accuracies(simulated_folder).items():
        found = [results[pair][f"top{n}"] for n in (1, 5, 10, 30)]
        assert found == pytest.approx(list(expected), abs=0.01), pair


def test_gmdb_folder_gives_the_contract_s_document(mien, simulated_folder):
    encodings = simulated_folder / "encodings.parquet"
    code, out, err = mien("evaluate", "--gmdb", simulated_folder, "--encodings", encodings, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["protocol"]["simulated"]
    assert document["protocol"]["folds"] == 2
    assert len(document["results"]) == 4 * 2 * 2
    first = document["results"][0]
    assert {"set", "gallery", "fusion", "score", "lambda", "alpha", "top1", "top5", "top10", "top30"} <= first.keys()
    assert {
        "p_top5",
        "delta_top5",
        "ci_low_top5",
        "ci_high_top5",
        "p_top1",
        "against",
        "images",
        "patients",
        "disorders",
        "folds",
    } <= first.keys()
    assert (first["set"], first["gallery"], first["fusion"], first["score"]) == ("freq", "unified", "none", "nearest")
    tested = read_gmdb(simulated_folder, encodings)[0].folds[0].frequent.test
    counts = (len({getattr(label, name) for label in tested}) for name in ("image_id", "patient_id", "disorder_id"))
    assert (first["images"], first["patients"], first["disorders"]) == tuple(counts)
    full = document["results"][1]
    assert full["lambda"] == 0.75
    assert full["ci_low_top5"] <= full["delta_top5"] <= full["ci_high_top5"]
    assert 0 < full["p_top5"] < 1


def test_a_cohort_is_evaluated_with_intervals(mien, ten_syndromes):
    code, out, _ = mien("evaluate", "--cohort", ten_syndromes, "--json")
    assert code == 0
    document = json.loads(out)
    assert {result["set"] for result in document["results"]} == {"freq", "multi-freq"}
    assert {result["gallery"] for result in document["results"]} == {"unified"}  # there are no rare disorders in it
    baseline, full = (result for result in document["results"] if result["set"] == "freq")
    assert full["top1"] > baseline["top1"]
    assert full["ci_low_top1"] > 0
    assert baseline["p_top5"] is None


def test_every_method_of_the_paper(mien, ten_syndromes):
    code, out, _ = mien("evaluate", "--cohort", ten_syndromes, "--all-methods", "--gallery-patients", 2, "--json")
    assert code == 0
    results = json.loads(out)["results"]
    assert len({(result["fusion"], result["score"]) for result in results}) == 12


def test_one_method_comes_with_the_baseline(mien, ten_syndromes):
    code, out, _ = mien("evaluate", "--cohort", ten_syndromes, "--score", "proportional", "--alpha", 0.1, "--json")
    assert code == 0
    scores = [(result["score"], result["alpha"]) for result in json.loads(out)["results"]]
    assert scores[:2] == [("nearest", None), ("proportional", 0.1)]


def test_a_person_gets_tables(mien, ten_syndromes):
    code, out, _ = mien("evaluate", "--cohort", ten_syndromes)
    assert code == 0
    for part in ("ten_syndromes.parquet", "baseline", "full", "against baseline", "10 disorders"):
        assert part in out
    assert "published" not in out  # another encoder, other patients
    assert "Simulated" not in out


def test_the_same_seed_gives_the_same_document(mien, ten_syndromes):
    first, again = (mien("evaluate", "--cohort", ten_syndromes, "--seed", 4, "--json")[1] for _ in range(2))
    assert first == again
    assert first != mien("evaluate", "--cohort", ten_syndromes, "--seed", 5, "--json")[1]


@pytest.fixture
def small_folder(tmp_path):
    """Four images of four patients, the age of one of them known."""
    frequent = Split((Label("1", "p", "A"),), (Label("2", "q", "A"),))
    rare = Split((Label("3", "r", "B"),), (Label("4", "s", "B"),))
    encodings = Encodings.of(["1", "2", "3", "4"], 2 * np.ones((4, 4, 3)))
    study = Study("by hand", encodings, (Fold(frequent, rare),), facts_of_image={"1": ImageFacts(2.0)})
    write_gmdb(tmp_path / "gmdb", study, "v1")
    return tmp_path / "gmdb"


def test_the_accuracies_are_means_of_the_ranks_that_are_written(mien, simulated_folder, tmp_path):
    import pandas as pd

    encodings = simulated_folder / "encodings.parquet"
    code, out, err = mien(
        "evaluate", "--gmdb", simulated_folder, "--encodings", encodings, "--json", "--out", tmp_path / "r.parquet"
    )
    assert code == 0, err
    ranks = pd.read_parquet(tmp_path / "r.parquet")
    for result in json.loads(out)["results"]:
        test_set, multi = result["set"].removeprefix("multi-"), result["set"].startswith("multi-")
        chosen = ranks[(ranks["set"] == test_set) & (ranks["gallery"] == result["gallery"])]
        method = "baseline" if result["fusion"] == "none" else "full"
        chosen = chosen[(chosen["method"] == method) & (chosen["images"] > multi)]
        hits = chosen.assign(hit=chosen["rank"] <= 5).groupby(["fold", "disorder_id", "patient_id"])["hit"].mean()
        top5 = hits.groupby(["fold", "disorder_id"]).mean().groupby("fold").mean().mean()
        assert 100 * top5 == pytest.approx(result["top5"], abs=1e-5)
    fused = ranks["method"] == "full"
    assert (ranks["image_id"].isna() == fused).all()
    assert not ranks[~fused].duplicated(["set", "gallery", "fold", "disorder_id", "image_id"]).any()


def test_ranks_are_written_in_three_formats_and_never_over_a_file(mien, small_folder, tmp_path):
    import pandas as pd

    evaluate = ("evaluate", "--gmdb", small_folder, "--encodings", small_folder / "encodings.parquet", "--json")
    parquet, tsv, whole = (tmp_path / f"ranks.{suffix}" for suffix in ("parquet", "tsv", "json"))
    for file in (parquet, tsv, whole):
        code, out, err = mien(*evaluate, "--out", file)
        assert code == 0, err
        assert file.stat().st_mode & 0o777 == 0o600
    document = json.loads(whole.read_text())
    ranks = document.pop("ranks")
    assert document == json.loads(out)
    assert ranks[0] == {
        "set": "freq",
        "gallery": "unified",
        "fold": 0,
        "patient_id": "q",
        "disorder_id": "A",
        "images": 1,
        "image_id": "2",
        "method": "baseline",
        "rank": 2,  # all photos are the same: the true one loses ties
    }
    rows = pd.read_csv(tsv, sep="\t", dtype={"image_id": str})
    assert rows.columns.tolist() == [*ranks[0], "source", "encoder", "mien_version", "notice"]
    pd.testing.assert_frame_equal(rows, pd.read_parquet(parquet), check_dtype=False)
    assert rows[list(ranks[0])].replace({np.nan: None}).to_dict("records") == ranks
    code, _, err = mien(*evaluate, "--out", parquet)
    assert code == 1
    assert "--force" in err
    assert mien(*evaluate, "--out", tmp_path / "r.parquet", "--calibration")[0] == 2
    code, _, err = mien("evaluate", "--cohort", tmp_path / "not read", "--out", tmp_path / "none" / "r.tsv")
    assert code == 1
    assert f"{tmp_path / 'none' / 'r.tsv'}: there is no folder" in " ".join(err.split())


def test_what_a_folder_has_beside_its_version_is_noted(mien, small_folder):
    (small_folder / "gmdb_metadata" / "gmdb_syndromes_v1_wo_pleiotropy.tsv").write_text("not read")
    code, _, err = mien("evaluate", "--gmdb", small_folder, "--encodings", small_folder / "encodings.parquet")
    assert code == 0
    assert err.splitlines() == [
        "side tables, not read: 'gmdb_syndromes_v1_wo_pleiotropy.tsv'",
        "3 images have neither age nor sex in the metadata",
    ]


def test_a_pickled_dict_is_as_good_as_a_table(mien, small_folder):
    path = small_folder / "all.p"
    path.write_bytes(pickle.dumps({number: [[2.0] * 3] * 4 for number in range(1, 5)}))
    found, expected = (
        json.loads(mien("evaluate", "--gmdb", small_folder, "--encodings", file, "--json")[1])
        for file in (path, small_folder / "encodings.parquet")
    )
    assert found == expected


@pytest.mark.parametrize("normalised", [True, False])
def test_embeddings_of_length_one_are_pointed_out(mien, small_folder, normalised):
    path = small_folder / "all.p"
    vector = [0.6, 0.8, 0.0] if normalised else [6.0, 8.0, 0.0]
    path.write_bytes(pickle.dumps({number: [vector] * 4 for number in range(1, 5)}))
    given = ("evaluate", "--gmdb", small_folder, "--encodings", path)
    assert json.loads(mien(*given, "--json")[1])["protocol"]["normalised"] is normalised
    assert (NORMALISED in mien(*given)[1]) is normalised


def test_a_patient_on_both_sides_is_left_out_and_named_and_refused_if_asked(mien, small_folder):
    table = small_folder / "gmdb_metadata" / "gmdb_frequent_test_images_v1.csv"
    table.write_text(table.read_text().replace("2,q,A", "2,p,A"))
    arguments = ["--gmdb", small_folder, "--encodings", small_folder / "encodings.parquet"]
    code, _, err = mien("evaluate", *arguments)
    assert code == 0
    assert "1 test patient is in the gallery too; left out of it for own queries: 'p'" in " ".join(err.split())
    document = json.loads(mien("evaluate", *arguments, "--json")[1])
    both = {"left_out_of_gallery_for_own_queries": True, "patient_ids": ["p"], "of_fold": {"0": ["p"]}}
    assert document["protocol"]["tested_and_in_gallery"] == both
    assert document["protocol"]["not_in_gallery"]["unified"] == ["p"]
    older = json.loads(mien("evaluate", *arguments, "--per-image", "--json")[1])
    assert older["protocol"]["tested_and_in_gallery"] == both | {"left_out_of_gallery_for_own_queries": False}
    assert not older["protocol"]["not_in_gallery"]["unified"]
    assert "nobody is left out" in mien("evaluate", *arguments, "--per-image")[2]
    code, out, err = mien("evaluate", *arguments, "--strict")
    assert (code, out) == (1, "")
    assert "in the gallery and in the test set: 'p'" in err


def test_differences_are_to_any_method(mien, ten_syndromes):
    arguments = ("evaluate", "--cohort", ten_syndromes, "--json")
    full = json.loads(mien(*arguments, "--against", "full")[1])["results"]
    baseline = json.loads(mien(*arguments)[1])["results"]
    assert [result["against"] for result in full] == ["full"] * len(full)
    for one, other in zip(full[::2], baseline[1::2], strict=True):
        assert one["delta_top5"] == -other["delta_top5"]
        assert one["p_top5"] == other["p_top5"]
    code, _, err = mien(*arguments, "--against", "none x nothing")
    assert code == 2
    assert "unknown" in err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "--gmdb"),
        (["--gmdb", "x"], "--encodings"),
        (["--cohort", "x", "--gmdb", "y"], "either"),
        (["--gmdb", "x", "--encodings", "y", "--folds", "3"], "--folds"),
        (["--cohort", "x", "--all-methods", "--method", "full"], "--all-methods"),
    ],
)
def test_contradictions_are_wrong_usage(mien, options, problem):
    code, _, err = mien("evaluate", *options)
    assert code == 2
    assert problem in err


def test_a_cohort_where_nobody_can_be_tested_is_refused(mien, tmp_path):
    from mien import Cohort

    cohort = Cohort.of(np.eye(2), image_ids=["1", "2"], patient_ids=["p", "q"], disorder_ids=["A", "B"])
    path = tmp_path / "cohort.parquet"
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])
    code, _, err = mien("evaluate", "--cohort", path)
    assert code == 1
    assert "nobody to test" in err


def test_the_page_on_ten_syndromes_shows_what_the_command_gives(mien, ten_syndromes):
    page = (Path(__file__).parents[2] / "docs" / "ten_syndromes.md").read_text()
    for patients in (2, 4, 10, "all"):
        thinned = [] if patients == "all" else ["--gallery-patients", patients]
        _, out, _ = mien("evaluate", "--cohort", ten_syndromes, "--all-methods", *thinned, "--json")
        results = [result for result in json.loads(out)["results"] if result["set"] == "freq"]
        by = {(result["fusion"], result["score"]): result for result in results}
        base, full = by["none", "nearest"], by["embedding", "hybrid"]
        differences = [
            f"{full[f'delta_{top}']:+.1f} ({full[f'ci_low{key}']:+.1f} to {full[f'ci_high{key}']:+.1f})"
            for top, key in (("top1", "_top1"), ("top5", "_top5"))
        ]
        cells = [f"{base['top1']:.1f}", f"{full['top1']:.1f}", differences[0]]
        cells += [f"{base['top5']:.1f}", f"{full['top5']:.1f}", differences[1]]
        assert f"| {patients} | {' | '.join(cells)} |" in page
        scores = ("nearest", "image-centroid", "patient-centroid", "hybrid")
        alone = [f"{by['none', score]['top1']:.1f}" for score in scores]
        assert f"| {patients} | {' | '.join(alone)} |" in page
