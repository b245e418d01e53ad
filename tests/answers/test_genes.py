"""Genes are ranked by their nearest disorder, against plain loops; probabilities of a gene's disorders add up."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from mien import FULL, Gallery, MienError, rank, rank_genes
from mien.answers.genes import Description, Gene, with_genes
from mien.answers.ranking import RankedDisorder, Ranking
from mien.evaluation.calibrating import calibrate

import oracle
from cohorts import families, random_cohort, random_query_arrays

GENES = [Gene(f"G{number}", str(number) if number % 3 else None) for number in range(8)]


def random_descriptions(rng, disorder_ids):
    """Many genes of a disorder, many disorders of a gene; some without a gene, some not described."""
    described = {}
    for disorder_id in disorder_ids:
        if rng.random() < 0.8:
            count = int(rng.integers(0, 4))
            genes = tuple(GENES[place] for place in rng.choice(len(GENES), size=count, replace=False))
            described[disorder_id] = Description(disorder_id, genes=genes)
    return described


def described(cohort, descriptions):
    """A cohort that knows genes, as a gallery does."""
    return SimpleNamespace(index=cohort.index, descriptions=descriptions)


@pytest.mark.parametrize("seed", range(5))
def test_genes_are_ranked_as_by_plain_loops(seed):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, disorders=12)
    descriptions = random_descriptions(rng, [f"d{number}" for number in range(12)])
    from mien import Query

    query = Query.of(random_query_arrays(rng, cohort, 2))
    [answer] = rank_genes(described(cohort, descriptions), query, FULL, top=None)
    [whole] = rank(cohort, query, FULL, top=None)
    order = [(line.distance, line.disorder_id) for line in whole.disorders]
    table = {key: [gene.gene_symbol for gene in one.genes] for key, one in descriptions.items()}
    expected = oracle.gene_lines(order, table)
    found = {
        line.gene_symbol or ("no gene", line.disorder_id): (
            line.rank,
            line.distance,
            line.disorder_id,
            list(line.disorder_ids),
        )
        for line in answer.genes
    }
    assert found == expected
    assert [line.distance for line in answer.genes] == sorted(line.distance for line in answer.genes)
    assert set(answer.not_described) == {disorder_id for _, disorder_id in order} - set(table)
    assert answer.disorders == whole.disorders
    for top in range(1, len(expected) + 1):
        [short] = rank_genes(described(cohort, descriptions), query, FULL, top=top)
        assert sorted(line.rank for line in short.genes) == sorted(own[0] for own in expected.values() if own[0] <= top)
    evidence = {line.disorder_id: line for line in whole.disorders}
    for line in answer.genes:
        own = evidence[line.disorder_id]
        for name in ("disorder_name", "nearest_distance", "centroid_distance", "nearest_image_id", "gallery_patients"):
            assert getattr(line, name) == getattr(own, name)


def made_ranking(*lines):
    """(disorder id, distance, probability, likelihood ratio) of each disorder."""
    return Ranking(
        "p",
        ("i",),
        (),
        tuple(
            RankedDisorder(
                rank,
                disorder_id,
                None,
                None,
                distance,
                distance,
                distance,
                "i",
                "p",
                2,
                1,
                probability,
                math.log10(ratio),
            )
            for rank, (disorder_id, distance, probability, ratio) in enumerate(lines, start=1)
        ),
    )


RANKING = made_ranking(("A", 0.1, 0.5, 8.0), ("B", 0.2, 0.3, 2.0), ("C", 0.2, 0.1, 1.0), ("D", 0.4, 0.05, 0.5))
TABLE = {
    "A": Description("A", genes=(Gene("ONE"), Gene("TWO"))),
    "B": Description("B", genes=(Gene("TWO"), Gene("THREE"))),
    "C": Description("C"),
    "D": Description("D", genes=(Gene("TWO"),)),
}


def test_what_is_as_far_away_has_the_same_rank():
    lines = [(line.rank, line.gene_symbol, line.disorder_id) for line in with_genes(RANKING, TABLE).genes]
    assert lines == [(1, "ONE", "A"), (1, "TWO", "A"), (3, "THREE", "B"), (3, None, "C")]


def test_probabilities_of_a_genes_disorders_add_up():
    by_gene = {line.gene_symbol: line for line in with_genes(RANKING, TABLE).genes}
    assert by_gene["TWO"].probability == pytest.approx(0.5 + 0.3 + 0.05)
    assert by_gene["TWO"].log10_likelihood_ratio == pytest.approx(math.log10((8 + 2 + 0.5) / 3))
    assert by_gene["ONE"].probability == 0.5
    assert by_gene[None].log10_likelihood_ratio == 0
    prior = {"A": 0.1, "B": 0.3, "C": 0.2, "D": 0.1}
    weighted = {line.gene_symbol: line for line in with_genes(RANKING, TABLE, prior=prior).genes}
    assert weighted["TWO"].log10_likelihood_ratio == pytest.approx(math.log10((0.8 + 0.6 + 0.05) / 0.5))


def test_a_short_list_has_the_numbers_of_the_long_one():
    short = with_genes(RANKING, TABLE, top=2)
    assert short.genes == with_genes(RANKING, TABLE).genes[:2]
    assert [line.disorder_id for line in short.disorders] == ["A", "B"]


@pytest.mark.parametrize(("top", "kept"), [(1, 2), (2, 2), (3, 4)])
def test_a_short_list_does_not_cut_what_is_as_far_away(top, kept):
    assert with_genes(RANKING, TABLE, top=top).genes == with_genes(RANKING, TABLE).genes[:kept]


def test_a_calibrated_gallery_says_how_likely_a_gene_is(rng):
    cohort = families(rng)
    calibration = calibrate(cohort, FULL)
    ids = [disorder.disorder_id for disorder in cohort.roster.disorders]
    table = {key: Description(key, genes=(Gene("EVEN" if place % 2 == 0 else "ODD"),)) for place, key in enumerate(ids)}
    query = families(rng, patients=1, prefix="new ").queries()[0]
    gallery = SimpleNamespace(index=cohort.index, descriptions=table, fingerprint=calibration.fingerprint)
    [answer] = rank_genes(gallery, query, FULL, top=None, calibration=calibration)
    total = sum(line.probability for line in answer.genes)
    assert total + answer.none_of_these == pytest.approx(1)
    assert len(answer.genes) == 2


def test_a_gallery_without_descriptions_says_what_to_do(rng, tmp_path):
    cohort = random_cohort(rng)
    Gallery.build(tmp_path / "gallery", cohort)
    for gallery in (cohort, Gallery.open(tmp_path / "gallery")):
        with pytest.raises(MienError, match="mien gallery describe"):
            rank_genes(gallery, cohort.queries()[0])


def test_an_answer_becomes_a_table_of_genes():
    table = with_genes(RANKING, TABLE).to_arrow()
    assert table.column("gene_symbol").to_pylist() == ["ONE", "TWO", "THREE", None]
