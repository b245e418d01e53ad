"""A cohort analysis as JSON, CSV, figures and one page that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from mien.answers.ranking import notice_for
from mien.core.embeddings import Encoder
from mien.errors import shown_ids
from mien.evaluation.cohort_analysis import SHOWN
from mien.evaluation.cohort_rows import (
    Cluster,
    CohortAnalysis,
    CohortPair,
    CohortPatient,
    GroupResult,
    NearDisorder,
    strongest_first,
)
from mien.evaluation.experiment_context import rows_of
from mien.report.cohort_figures import FIGURES
from mien.report.evaluation import as_row, p_equals, p_value_text
from mien.report.figures.style import draw_and_save
from mien.report.page import data_address, environment
from mien.report.report_folder import PAGE, write_results
from mien.report.tables import Column, TableCell
from mien.storage.sharded import AnyGallery
from mien.version import TOOL, __version__

MOST_PAIRS = 20  # on the page; the table has all
MOST_IN_CAPTION = 5  # groups
MANY_PHOTOS = 2  # times as many as a gallery patient has on average


def cohort_document(analysis: CohortAnalysis, gallery: AnyGallery) -> dict[str, Any]:
    """The analysis as plain values, for JSON."""
    return {
        "tool": {**TOOL, "numpy": np.__version__, "scipy": scipy.__version__},
        "gallery": gallery.as_dict(),
        "protocol": dict(analysis.facts),
        **{name: [as_row(row) for row in rows] for name, rows in analysis.tables.items()},
        "notice": notice_for(gallery.encoder),
    }


def write_cohort(out: Path, analysis: CohortAnalysis, gallery: AnyGallery) -> None:
    """Writes all files into a folder that only its owner can read, because they name patients."""
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)  # also where it was there
    document, tables = cohort_document(analysis, gallery), analysis.tables
    write_results(out, document, tables, known_tables=tables, figures=FIGURES)
    tested = any(group.mean_distance is not None for group in rows_of(tables, "groups", GroupResult))
    drawn = {name: draw for name, draw in FIGURES.items() if tested or name in {"ranks", "map"}}
    note = f"mien {__version__} · seed {analysis.facts['seed']}"
    for name, draw in drawn.items():
        draw_and_save(draw, tables, out / "figures" / name, note)
    figures = {name: data_address(out / "figures" / f"{name}.svg") for name in drawn}
    (out / PAGE).write_text(cohort_page(analysis, document, figures))


def cohort_page(analysis: CohortAnalysis, document: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The HTML, with the figures inside."""
    tables, facts = analysis.tables, analysis.facts
    groups = strongest_first(rows_of(tables, "groups", GroupResult))
    place_of = {group.group: place for place, group in enumerate(groups)}
    near = sorted(rows_of(tables, "near_disorders", NearDisorder), key=lambda line: (place_of[line.group], line.rank))
    pairs = rows_of(tables, "pairs", CohortPair)
    patients = rows_of(tables, "patients", CohortPatient)
    most_photos = MANY_PHOTOS * facts["control_photos"] / facts["control_patients"]
    return (
        environment()
        .get_template("cohort.html")
        .render(
            document=document,
            protocol=facts,
            encoder=document["gallery"]["encoder"] and Encoder.from_dict(document["gallery"]["encoder"]),
            groups=groups,
            sentences={group.group: group_in_words(group, near) for group in groups},
            figures=figures,
            captions=captions(groups, near, facts),
            numbers=_columns(groups, NUMBERS),
            near=_columns(near, NEAR),
            clusters=_columns(rows_of(tables, "clusters", Cluster), CLUSTERS),
            close=sum(pair.q_value <= facts["false_discovery_rate"] for pair in pairs),
            pairs=_columns(pairs[:MOST_PAIRS], PAIRS),
            many_photos=[f"{who.patient_id} ({who.photos})" for who in patients if who.photos > most_photos],
            left_out=shown_ids(facts["left_out_of_gallery"], most=1000),
            files={name: about for name, about in FILES.items() if tables[name]},
        )
    )


def group_in_words(group: GroupResult, near: Sequence[NearDisorder] = ()) -> list[str]:
    """What was found of a group, in sentences for a reader who has seen no number yet."""
    if group.p_holm is None or group.mean_distance is None or group.effect is None:
        return ["One patient: there is nothing to compare."]
    alike = group.p_holm < SHOWN
    answer = f"{'' if alike else 'not shown to be '}more alike than gallery patients with different disorders"
    matched = "" if group.p_matched is not None else "; sex, age and ancestry were not matched"
    corrected = f"{p_equals(group.p_holm)}, corrected for the number of groups"
    lines = [f"{group.patients} patients, {answer} ({corrected}{matched})."]
    of_group = [line for line in near if line.group == group.group]
    if group.no_known_disorder_close is not None:
        lines.append(_fitting_disorders(group, [line for line in of_group if (line.p_value or 0) >= SHOWN]))
    if alike and group.hangs_on is not None:
        lines.append(f"The likeness hangs on one patient: without {group.hangs_on} it is no longer shown.")
    elif alike and group.p_without_one is not None:
        largest = f"largest {p_equals(group.p_without_one)}, uncorrected"
        lines.append(f"The likeness holds whichever patient is left out ({largest}).")
    if group.p_matched is not None:
        lines.append(f"Against patients of the same sex and age: {p_equals(group.p_matched)}.")
    if alike:  # a group that is not alike has no likeness to compare with
        lines += _against_known(of_group)
    if group.p_between_holm is not None:
        more = "are closer" if group.p_between_holm < SHOWN else "are not shown to be closer"
        p_value = f"{p_equals(group.p_between_holm)}, corrected"
        lines.append(f"They {more} to each other than to the cohort's other patients ({p_value}).")
    same, different = (100 * (share or 0) for share in (group.same_disorder_share, group.different_disorder_share))
    lines.append(
        f"Two of them are {group.mean_distance:.3f} apart on average. {same:.0f} % of gallery pairs with one disorder"
        f" are as close or closer, and {different:.0f} % of pairs with different ones. "
        f"The patients of {group.less_alike_disorders} of {group.compared_disorders} known disorders are less alike"
        " than these."
    )
    return lines


def _fitting_disorders(group: GroupResult, likely: Sequence[NearDisorder]) -> str:
    """Which disorders of the gallery could be the group's, by its patients' prediction sets."""
    if group.no_known_disorder_close:
        return (
            "None of the gallery's disorders fits the whole group: each is in the prediction sets of too few patients."
            " A single patient may still have one, and other disorders were not compared."
        )
    names = []
    for line in likely:
        patients = f"{line.patients_with_it} of {group.patients} patients"
        names.append(f"{line.disorder_name or line.disorder_id} (in the prediction sets of {patients})")
    return f"Of the gallery's disorders, this fits the group: {', '.join(names) or 'one that is farther away'}."


def _against_known(near: Sequence[NearDisorder]) -> list[str]:
    """Compares a group whose patients are alike with gallery patients of the known disorders near it."""
    compared = [line for line in near if line.p_between_holm is not None]
    nearer = [line for line in compared if (line.between_distance or 0) <= (line.within_distance or 0)]
    tested = [line for line in compared if line not in nearer]
    apart = [line for line in tested if (line.p_between_holm or 0) < SHOWN]
    said = []
    if apart:
        largest = p_equals(max(line.p_between_holm or 0 for line in apart))
        count = f"all {len(apart)}" if len(apart) == len(near) else f"{len(apart)} of the {len(near)}"
        said.append(
            f"They are closer to each other than to gallery patients of {count} nearest known disorders"
            f" (largest {largest}, corrected)."
        )
    if unclear := [line for line in tested if line not in apart]:
        said.append(f"They are not shown to be closer to each other than to patients of {_names(unclear)}.")
    if nearer:
        said.append(f"They are no closer to each other than to patients of {_names(nearer, with_p=False)}.")
    if few := [line for line in near if line.p_between_holm is None]:
        said.append(f"Too few gallery patients to tell: {_names(few, with_p=False)}.")
    return said


def _names(lines: Sequence[NearDisorder], *, with_p: bool = True) -> str:
    """Disorders, with the p-value of the comparison or without."""
    names = []
    for line in lines:
        p_value = f" ({p_equals(line.p_between_holm)})" if with_p and line.p_between_holm is not None else ""
        names.append(f"{line.disorder_name or line.disorder_id}{p_value}")
    return ", ".join(names)


def captions(groups: Sequence[GroupResult], near: Sequence[NearDisorder], facts: Mapping[str, Any]) -> dict[str, str]:
    """What each figure of this run shows, by the figure's name."""
    tested = [group for group in groups if group.mean_distance is not None]
    some, others = tested[:MOST_IN_CAPTION], len(tested) - MOST_IN_CAPTION
    told: dict[str, list[str]] = {"alike": [], "ranks": [], "threshold": [], "map": []}
    everybody = facts["patients"] - 1 + facts["control_patients"]
    for group in some:
        as_close = round((group.p_value or 0) * (facts["draws"] + 1)) - 1
        told["alike"].append(
            f"{group.group} has {group.mean_distance:.3f}, and {as_close:,} of {facts['draws']:,} random groups are as"
            " close"
        )
        told["ranks"].append(f"{group.group} {group.median_rank:,.1f}")
        same, different = (100 * (x or 0) for x in (group.same_disorder_share, group.different_disorder_share))
        told["threshold"].append(f"{group.group} {same:.0f} % and {different:.0f} %")
    for group in groups[:MOST_IN_CAPTION]:
        first = next((line for line in near if line.group == group.group), None)
        told["map"] += [f"{group.group}: {first.disorder_name or first.disorder_id}"] if first else []
    before = {
        "alike": "",
        "ranks": f"median rank of another patient of the same group ({everybody / 2:,.0f} by chance): ",
        "threshold": "pairs with one disorder, and with different ones, that are as close: ",
        "map": "nearest by all dimensions: ",
    }
    rest = f"; {others} more groups are in the tables" if others > 0 else ""
    return {name: f"{before[name]}{'; '.join(found)}{rest}." for name, found in told.items() if found}


class _Field(NamedTuple):
    heading: str
    text: Callable[[Any], str]
    numeric: bool = True


FILES = {  # of the tables, as the page offers them
    "groups": "every number of the groups",
    "near_disorders": "known disorders near each group",
    "pairs": "all pairs, with ranks both ways",
    "clusters": "clusters of close pairs",
    "patients": "patients, with the nearest disorder of each",
    "without_one": "each group without each of its patients",
    "random_means": "the hills of the first figure",
    "threshold": "the curves of pairs",
    "map": "the points of the map",
}
NUMBERS = {
    "group": _Field("Group", str, numeric=False),
    "patients": _Field("Patients", str),
    "mean_distance": _Field("Mean\ndistance", "{:.3f}".format),
    "random_mean": _Field("of random\npatients", "{:.3f}".format),
    "effect": _Field("Effect", "{:.2f}".format),
    "ci_low": _Field("95 %\nfrom", "{:.2f}".format),
    "ci_high": _Field("to", "{:.2f}".format),
    "p_value": _Field("p", p_value_text),
    "p_holm": _Field("p, for all\ngroups (Holm)", p_value_text),
    "p_matched": _Field("p, same sex\nand age", p_value_text),
    "p_without_one": _Field("p without one\npatient, at most", p_value_text),
    "p_between_holm": _Field("p against other\ngroups (Holm)", p_value_text),
}
NEAR = {
    "group": _Field("Group", str, numeric=False),
    "rank": _Field("Rank", str),
    "disorder_id": _Field("Disorder", str, numeric=False),
    "disorder_name": _Field("Name", str, numeric=False),
    "distance": _Field("Distance", "{:.3f}".format),
    "gallery_patients": _Field("Gallery\npatients", str),
    "within_distance": _Field("Mean distance of\nthe group, one\nphoto of each", "{:.3f}".format),
    "between_distance": _Field("To these, one\nphoto of each", "{:.3f}".format),
    "p_between_holm": _Field("p, apart from\nthese (Holm)", p_value_text),
    "patients_with_it": _Field("Patients with it in\ntheir prediction set", str),
    "p_value": _Field("p of so few, if\nit were theirs\n(uncorrected)", p_value_text),
}
PAIRS = {
    "patient_id": _Field("Patient", str, numeric=False),
    "other_id": _Field("Patient", str, numeric=False),
    "distance": _Field("Distance", "{:.3f}".format),
    "rank": _Field("Rank of the second\nin the first's list", "{:,}".format),
    "rank_back": _Field("Rank of the first\nin the second's list", "{:,}".format),
    "p_value": _Field("p", "{:.2g}".format),
    "q_value": _Field("False discovery\nrate", p_value_text),
}
CLUSTERS = {
    "cluster": _Field("Cluster", str),
    "patient_ids": _Field("Patients", ", ".join, numeric=False),
    "mean_distance": _Field("Mean\ndistance", "{:.3f}".format),
    "largest_q": _Field("False discovery\nrate, at most", p_value_text),
    "nearest_disorders": _Field("Known disorders nearby", ", ".join, numeric=False),
}


def _columns(rows: Sequence[NamedTuple], fields: Mapping[str, _Field]) -> list[Column]:
    """The columns of a table; those that are empty in every row are left out."""
    columns = []
    for name, field in fields.items():
        values = [getattr(row, name) for row in rows]
        cells = [TableCell("" if value is None else field.text(value)) for value in values]
        if any(cell.text for cell in cells):
            columns.append(Column(field.heading, field.numeric, cells))
    return columns
