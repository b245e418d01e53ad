"""Tables of disorders and genes: many to many, with gaps, refused with every problem."""

from __future__ import annotations

import pytest

from mien.answers.genes import Description, Gene
from mien.errors import InvalidFileError
from mien.storage.formats.disorder_table import read_disorders

HEADER = "disorder_id,name,curie,gene_symbol,entrez_id,hgnc_id,ensembl_id\n"


def read(tmp_path, text, name="disorders.csv"):
    (tmp_path / name).write_text(text)
    return read_disorders(tmp_path / name)


def test_disorders_and_genes_are_many_to_many(tmp_path):
    found = read(
        tmp_path,
        HEADER
        + "K,Kabuki syndrome,OMIM:147920,KMT2D,8085,HGNC:7133,ENSG00000167548\n"
        + "K,,OMIM:300867,KDM6A,,,\n"
        + "K,,ORPHA:2322,KMT2D,,,\n"
        + "W,Williams syndrome,OMIM:194050,,,,\n"
        + "X,,,KDM6A,7403,,\n",
    )
    kmt2d, kdm6a = Gene("KMT2D", "8085", "HGNC:7133", "ENSG00000167548"), Gene("KDM6A", "7403")
    assert found == {
        "K": Description("K", "Kabuki syndrome", ("OMIM:147920", "OMIM:300867", "ORPHA:2322"), (kmt2d, kdm6a)),
        "W": Description("W", "Williams syndrome", ("OMIM:194050",)),
        "X": Description("X", genes=(kdm6a,)),
    }


def test_columns_that_are_not_there_are_not_known(tmp_path):
    assert read(tmp_path, "disorder_id\tgene_symbol\n007\tABC\n", "disorders.tsv") == {
        "007": Description("007", genes=(Gene("ABC"),))
    }


def test_gmdbs_table_of_syndromes_is_read(tmp_path):
    found = read(tmp_path, "syndrome_id\tsyndrome_name\tOMIM\n7\tNoonan syndrome\tPS163950\n8\tX\t-\n", "syndromes.tsv")
    assert found == {"7": Description("7", "Noonan syndrome", ("OMIMPS:163950",)), "8": Description("8", "X")}
    with_genes = "syndrome_id\tsyndrome_name\tOMIM\tgene_symbol\n7\tNoonan\t163950\tPTPN11\n7\tNoonan\t163950\tRAF1\n"
    [noonan] = read(tmp_path, with_genes, "syndromes.tsv").values()
    assert noonan.genes == (Gene("PTPN11"), Gene("RAF1"))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (",,,A,,,\n", "row 2: the disorder's id is blank"),
        ("K,,147920,A,,,\n", "row 2: curie is '147920': write OMIM:180849"),
        ("K,,,A,8085.0,,\n", "row 2: entrez_id is '8085.0'"),
        ("K,,,A,,7133x,\n", "row 2: hgnc_id"),
        ("K,,,A,,,KMT2D\n", "row 2: ensembl_id"),
        ("K,,,,8085,,\n", "row 2: a gene's id without its gene_symbol"),
        ("K,,,A,1,,\nL,,,A,2,,\n", "row 3: gene 'A' has entrez_id '2' here and '1' before"),
        ("K,,,A,1,,\nL,,,B,1,,\n", "row 3: entrez_id '1' is that of 'B' here and of 'A' before"),
        ("K,one,,A,,,\nK,two,,B,,,\n", "row 3: disorder 'K' is called 'two' here and 'one' before"),
        ("K,one\n", "row 2: 2 fields"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, rows, problem):
    with pytest.raises(InvalidFileError, match=problem):
        read(tmp_path, HEADER + rows)


def test_a_table_without_ids_is_refused(tmp_path):
    with pytest.raises(InvalidFileError, match="'disorder_id' is missing"):
        read(tmp_path, "label,gene_symbol\nK,A\n")
