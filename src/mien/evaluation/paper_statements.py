"""What the paper states in numbers, ranges and orders, sentence by sentence, checked against the tables of a run.

How near is near enough was written down before anything was measured, but for two rows: the monotony of S4.2 became
stricter (any fall of the curve, not only from one lambda to the next), and who is unchanged by fusion alone (Figure 4)
was added, after a first run. The printed accuracies stand in `agreement.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product

from mien.core.method import BASELINE, FULL, Method
from mien.evaluation import published
from mien.evaluation.comparison import SETS, GalleryName, SetName
from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments import gallery_size, oracle
from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.lambda_selection import CentroidLine, LambdaLine
from mien.evaluation.experiments.lambda_sensitivity import BestLambda, SensitivityLine
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.proportional import AlphaLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.evaluation.findings import (
    Finding,
    Numbers,
    at_most,
    finding,
    inside,
    near,
    numbers,
    order,
    significance,
    signs,
)
from mien.evaluation.published import SET_NAMES
from mien.evaluation.results import Result

# how near is near enough
GAIN = 2.0  # points of a difference of accuracies
SIMILAR = 1.0  # points: "similar", "preserved", "comparable", "flat", "no benefit"
SHARE = 3.0  # points of a share of patients
MEDIAN = 0.25  # of a median rank
DISTANCE, COHENS_D, AUC, OVERLAP = 0.03, 0.2, 0.02, 5.0
LAMBDA, RHO = 0.1, 0.1
FALL = 0.2  # points by which a curve that rises monotonically may fall

ALL: tuple[SetName, ...] = ("freq", "rare")
MULTI: tuple[SetName, ...] = ("multi-freq", "multi-rare")
TOPS, TOP_5_AND_10 = ("top1", "top5", "top10"), ("top5", "top10")
BY_IMAGE, BY_PATIENT, HYBRID = (Method("none", score) for score in ("image-centroid", "patient-centroid", "hybrid"))
LATE, EARLY = Method("distance", "nearest"), Method("embedding", "nearest")


def findings(tables: Tables) -> list[Finding]:
    """Every statement that this run can speak to."""
    found: list[Finding] = []
    for check in _CHECKS:
        try:
            found.extend(check(tables))  # what comes before a row that is missing stays
        except (KeyError, ZeroDivisionError):  # a run without some set or experiment, or without any hit
            continue
    return [finding for finding in found if finding.measured]


class _Accuracies:
    """The accuracies of all tables."""

    def __init__(self, tables: Tables) -> None:
        names = ("headline", "patient_aggregation", "disorder_aggregation", "ablation")
        rows = [row for name in names for row in rows_of(tables, name, Result)]
        self.rows = {(row.set, row.method, row.gallery): row for row in rows}

    def __call__(self, test_set: SetName, method: Method, top: str = "top1", gallery: GalleryName = "unified") -> float:
        return float(getattr(self.rows[test_set, method, gallery], top))

    def chains(self, test_set: SetName, methods: Sequence[Method], tops: Sequence[str] = TOPS) -> list[Numbers]:
        """The accuracies of methods one after the other, for each top."""
        return [[self(test_set, method, top) for method in methods] for top in tops]

    def significance(self, where: str, test_set: SetName, method: Method) -> Finding:
        """The p-value of a method."""
        printed = published.ACCURACY[test_set][method.fusion, method.score].p_top5 or ""
        text = f"{where}: {SET_NAMES[test_set]}, {method}: p of top-5 against the baseline"
        return significance(text, self.rows[test_set, method, "unified"].p_top5 or 1.0, printed)


def _splits(tables: Tables) -> Iterator[Finding]:
    lines = {line.part: line for line in rows_of(tables, "splits", SplitLine)}
    pairs = [
        (getattr(lines[part], name), value)
        for part, printed in published.SPLITS.items()
        for name, value in printed._asdict().items()
        if value is not None
    ]
    wrong = sum(abs(one - other) > 0.05 for one, other in pairs)
    text = "Table 1: images, patients and disorders of every part, with their ± over the folds"
    yield finding(text, "to the printed digit", f"{len(pairs)} numbers", f"{wrong} differ", holds=not wrong)
    printed = published.IMAGES_PER_PATIENT
    text = "Table 1, Section 3.1: images per patient of GMDB-Multi-Freq and GMDB-Multi-Rare"
    yield near(text, [lines[part].images / lines[part].patients for part in printed], [*printed.values()], 0.05)


def _patient_level(tables: Tables) -> Iterator[Finding]:
    acc = _Accuracies(tables)
    freq, rare = (f"Table 2, Section 4.1: {SET_NAMES[test_set]}: " for test_set in MULTI)
    frequent = [*acc.chains("multi-freq", [BASELINE, LATE]), *acc.chains("multi-freq", [BASELINE, EARLY])]
    yield order(freq + "both fusions above the baseline, top-1, 5 and 10", frequent)
    apart = abs(acc("multi-freq", LATE) - acc("multi-freq", EARLY))
    yield at_most(freq + "both fusions similar at top-1, points apart", [apart], SIMILAR, 0.09)
    chains = acc.chains("multi-freq", [EARLY, LATE], TOP_5_AND_10)
    yield order(
        freq + "distance-level above embedding-level fusion, top-5 and 10", chains, "76.29 / 77.94; 77.97 / 80.63"
    )
    chains = acc.chains("multi-rare", [LATE, BASELINE], ["top1"])
    yield order(rare + "distance-level fusion below the baseline, top-1", chains, "17.75 / 18.54")
    apart = abs(acc("multi-rare", EARLY) - acc("multi-rare", BASELINE))
    yield at_most(rare + "embedding-level fusion preserves top-1, points apart", [apart], SIMILAR, 0.01)
    better = [chain for other in (BASELINE, LATE) for chain in acc.chains("multi-rare", [other, EARLY], TOP_5_AND_10)]
    yield order(rare + "embedding-level fusion above baseline and distance-level fusion, top-5 and 10", better)
    for test_set, fusion in product(MULTI, (LATE, EARLY)):
        yield acc.significance("Table 2", test_set, fusion)


def _disorder_level(tables: Tables) -> Iterator[Finding]:
    acc = _Accuracies(tables)
    for test_set in ALL:
        where = f"Table 3, Section 4.2: {SET_NAMES[test_set]}: "
        above = [*acc.chains(test_set, [BASELINE, BY_IMAGE]), *acc.chains(test_set, [BASELINE, BY_PATIENT])]
        yield order(where + "both centroids above the baseline, top-1, 5 and 10", above)
        [chain] = acc.chains(test_set, [BY_IMAGE, BY_PATIENT], ["top1"])
        yield order(where + "patient-weighted above image-weighted centroid, top-1", [chain])
        yield at_most(where + "that improvement is modest, points", [chain[1] - chain[0]], 1.5, "0.57, 0.75")
        for method in (BY_IMAGE, BY_PATIENT, HYBRID):
            yield acc.significance("Table 3", test_set, method)
    ways = [BASELINE, BY_PATIENT, HYBRID]
    yield order(
        "Table 3, Section 4.3: GMDB-Freq: baseline, centroid, hybrid, top-1, 5 and 10", acc.chains("freq", ways)
    )
    text = "Table 3, Section 4.3: GMDB-Rare: baseline, centroid, hybrid, top-1"
    yield order(text, acc.chains("rare", ways, ["top1"]), "19.38 / 22.88 / 23.10")
    text = "Table 3, Section 4.3: GMDB-Rare: centroid above hybrid, top-5 and 10"
    yield order(text, acc.chains("rare", [HYBRID, BY_PATIENT], TOP_5_AND_10), "38.08 / 38.39; 44.40 / 45.33")


def _full(tables: Tables) -> Iterator[Finding]:
    acc = _Accuracies(tables)
    for test_set, of_set in published.ACCURACY.items():
        printed = round(of_set["embedding", "hybrid"].top1 - of_set["none", "nearest"].top1, 2)
        text = f"Figure 3, Section 4.4: {SET_NAMES[test_set]}: gain of the full method over the baseline, top-1, points"
        yield near(text, [acc(test_set, FULL) - acc(test_set, BASELINE)], [printed], GAIN)
        yield acc.significance("Figure 3, Section 4.4", test_set, FULL)
    relative = 100 * (acc("multi-freq", FULL) - acc("multi-freq", BASELINE)) / acc("multi-freq", BASELINE)
    yield near("Figure 3, Section 5.2: GMDB-Multi-Freq: relative gain at top-1, per cent", [relative], [32.1], 5)


def _rank_changes(tables: Tables) -> Iterator[Finding]:
    rows = rows_of(tables, "rank_changes", Change)
    of = {(row.set, row.stage): row for row in rows}
    where, centroid = "Figure 4, Section 4.4: ", "patient-weighted centroid"
    changed = [[row.worsened, row.improved] for row in rows if row.stage != "baseline"]
    yield order(where + "more patients improve than worsen, at every stage and in every set", changed)
    for test_set in SETS:
        row, printed = of[test_set, "full"], published.RANK_CHANGE[test_set, "full"]
        text = f"{where}{SET_NAMES[test_set]}: "
        shares = [printed["improved"], printed["worsened"]]
        yield near(f"{text}full method, improved and worsened, per cent", [row.improved, row.worsened], shares, SHARE)
        if "median_rank" in printed:
            uncensored = [row.improved_uncensored, row.worsened_uncensored]
            shares = [printed["improved_uncensored"], printed["worsened_uncensored"]]
            yield near(f"{text}the same on uncensored ranks, per cent", uncensored, shares, SHARE)
            medians = [of[test_set, "baseline"].median_rank or 0, row.median_rank or 0]
            wanted = [published.RANK_CHANGE[test_set, "baseline"]["median_rank"], printed["median_rank"]]
            holds = all(abs(one / other - 1) <= MEDIAN for one, other in zip(medians, wanted, strict=True))
            rule, shown = f"within {100 * MEDIAN:g} per cent", numbers(medians)
            yield finding(f"{text}median rank before and after", rule, numbers(wanted), shown, holds=holds)
    improved = [of[test_set, centroid].improved for test_set in SETS]
    text = where + "patient-weighted centroids alone: improved in the four sets, per cent"
    yield inside(text, improved, *published.DISORDER_LEVEL_IMPROVED)
    row, printed = of["multi-freq", centroid], published.RANK_CHANGE["multi-freq", centroid]
    text = where + "GMDB-Multi-Freq: centroids alone, improved and worsened, per cent"
    yield near(text, [row.improved, row.worsened], [printed["improved"], printed["worsened"]], SHARE)
    alone = [of[test_set, "embedding-level fusion alone"].unchanged_with_one_image or 0 for test_set in ALL]
    text = where + "GMDB-Freq, GMDB-Rare: who is unchanged by fusion alone mostly has one image, per cent"
    yield finding(text, "half or more", "dominated", numbers(alone), holds=min(alone) >= 50)
    worsened = [[of[test_set, stage].worsened for stage in ("full", centroid)] for test_set in SETS]
    yield order(where + "hybrid scoring and fusion lower the share that worsens, in every set", worsened)
    falls = {test_set: after - before for test_set, (before, after) in zip(SETS, worsened, strict=True)}
    most = [[falls[test_set], falls["multi-freq"]] for test_set in SETS if test_set != "multi-freq"]
    yield order(where + "that share falls most on GMDB-Multi-Freq, points", most)


def _distances(tables: Tables) -> Iterator[Finding]:
    of = {group.group: group for group in rows_of(tables, "distances", Group)}
    tolerances = {"mean": DISTANCE, "auc": AUC, "cohens_d": COHENS_D, "overlap_percent": OVERLAP}
    for name, printed in published.DISTANCES.items():
        for measure, value in printed.items():
            text = f"S2: {name}: {measure.replace('_', ' ')} of distances"
            yield near(text, [getattr(of[name], measure)], [value], tolerances[measure])
    frequent, rare = (of[name].overlap_percent or 0 for name in ("intra-freq", "intra-rare"))
    yield order("S2: rare disorders overlap more than twice as much as frequent ones, per cent", [[2 * frequent, rare]])


def _validation(tables: Tables) -> Iterator[Finding]:
    lines = rows_of(tables, "lambda_selection", LambdaLine)
    for measure, printed in published.BEST_ON_VALIDATION.items():
        values = {line.centroid_weight: getattr(line, measure) for line in lines}
        if values:
            best = max(values, key=values.__getitem__)
            text = f"S4.1: best λ of the grid on validation images, {measure}"
            yield finding(text, "the same", printed, f"{best:g}", holds=best == printed)
    top1 = {line.score: line.top1 for line in rows_of(tables, "validation_centroids", CentroidLine)}
    gain = top1["patient-centroid"] - top1["image-centroid"]
    text = "S4.1, Section 3.4.1: validation: gain of patient- over image-weighted centroids, top-1, points"
    yield inside(text, [gain], *published.PATIENT_OVER_IMAGE_WEIGHTED)


def _sensitivity(tables: Tables) -> Iterator[Finding]:
    best = {row.set: row for row in rows_of(tables, "best_lambda", BestLambda)}
    lines = rows_of(tables, "lambda_sensitivity", SensitivityLine)
    centroid_alone = {line.set: line.objective for line in lines if line.centroid_weight == 1}
    yield near("S4.2: GMDB-Freq: best λ", [best["freq"].centroid_weight], [0.71], LAMBDA)
    declines = [[centroid_alone["freq"], best["freq"].objective]]
    yield order("S4.2: GMDB-Freq: the curve declines beyond its optimum, λ = 1 and optimum", declines)
    for test_set in ("rare", "multi-rare"):
        where, weight = f"S4.2: {SET_NAMES[test_set]}: ", best[test_set].centroid_weight
        fall = best[test_set].largest_fall
        yield at_most(where + "the curve rises monotonically, largest fall in points", [fall], FALL, "none")
        yield finding(where + "centroid scoring alone is best, λ", "the same", 1, f"{weight:g}", holds=weight == 1)
    text = f"S4.2: above λ = {published.PLATEAU_FROM:g} the four curves vary by, points"
    yield at_most(text, [best[test_set].plateau_spread for test_set in SETS], published.PLATEAU_SPREAD)
    for test_set, printed in published.BEST_LAMBDA.items():
        text = f"S4.2: {SET_NAMES[test_set]}: cost of λ = 0.75 against the set's own optimum, points"
        yield at_most(text, [best[test_set].cost_of_chosen], printed.cost_of_chosen)


def _number_of_images(tables: Tables) -> Iterator[Finding]:
    single, *fusions = oracle.APPROACHES
    curves: dict[tuple[SetName, str, int, str], list[float]] = {}
    for line in sorted(rows_of(tables, "number_of_images", ImagesUsed), key=lambda line: line.used):
        for top in ("top1", "top5"):
            curves.setdefault((line.set, line.approach, line.least_images, top), []).append(getattr(line, top))
    cohorts = sorted({least for test_set, _, least, _ in curves if test_set == "multi-freq"})
    if not cohorts:
        return
    freq, rare = "S5: GMDB-Multi-Freq: ", "S5: GMDB-Multi-Rare: "
    rising = [curves["multi-freq", fusion, least, "top1"] for fusion, least in product(fusions, cohorts)]
    yield order(freq + "both fusions rise with every image, top-1", rising)
    flat = [curves["multi-freq", single, least, top] for least, top in product(cohorts, ("top1", "top5"))]
    spans = [max(curve) - min(curve) for curve in flat]
    yield at_most(freq + "the single-image control stays flat, points", spans, SIMILAR, "flat")
    steps = [[later - earlier for earlier, later in pairwise(curve)] for curve in rising if len(curve) > 2]
    yield order(
        freq + "the second image adds more than any later one, top-1, points", [[max(x[1:]), x[0]] for x in steps]
    )
    second = [curves["multi-freq", fusion, 2, "top1"] for fusion in fusions]
    low, high = published.SECOND_IMAGE_GAIN
    text = freq + "largest cohort: the second image adds roughly 6 to 7 points at top-1"
    yield inside(text, [curve[1] - curve[0] for curve in second], low - 0.5, high + 0.5)
    ends = [[curves["multi-freq", fusion, cohorts[-1], top] for top in ("top5", "top1")] for fusion in fusions]
    beyond = [[curve[-1] - curve[1] for curve in pair] for pair in ends]
    yield order(freq + "beyond two images top-5 gains less than top-1, points", beyond)
    gain = {
        (approach, top): curve[-1] - curve[0]
        for approach, top in product((single, *fusions), ("top1", "top5"))
        for curve in [curves["multi-rare", approach, 2, top]]
    }
    over_control = [gain[fusion, "top1"] - gain[single, "top1"] for fusion in fusions]
    yield at_most(rare + "at top-1 the second image adds nothing to the control, points", over_control, SIMILAR, "none")
    yield signs(rare + "both fusions gain at top-5, points", [gain[fusion, "top5"] for fusion in fusions], 1)
    yield at_most(rare + "the control falls at top-5, points", [gain[single, "top5"]], 0)


def _oracle(tables: Tables) -> Iterator[Finding]:
    rows = [row for name in ("oracle", "oracle_scores") for row in rows_of(tables, name, oracle.OracleLine)]
    of = {(row.set, row.score, row.approach): row for row in rows}
    single, *fusions = oracle.APPROACHES
    for score in dict.fromkeys(score for _, score, _ in of):
        chains = [
            [getattr(of[test_set, score, approach], top) for approach in (fusion, oracle.ORACLE)]
            for test_set, fusion, top in product(MULTI, fusions, TOPS)
        ]
        yield order(f"S6: {score}: no fusion reaches the best single image, both sets, top-1, 5 and 10", chains)
    base, best = (of["multi-freq", "nearest", approach].top1 for approach in (single, oracle.ORACLE))
    parts = [100 * (of["multi-freq", "nearest", fusion].top1 - base) / (best - base) for fusion in fusions]
    text = "S6: GMDB-Multi-Freq: fusion closes a substantial part of the way to the oracle, top-1, per cent"
    yield finding(text, "half or more", "70 / 70", numbers(parts), holds=min(parts) >= 50)
    base = of["multi-rare", "nearest", single].top1
    apart = [abs(of["multi-rare", "nearest", fusion].top1 - base) for fusion in fusions]
    yield at_most(
        "S6: GMDB-Multi-Rare: fusions comparable to the baseline at top-1, points apart", apart, SIMILAR, "0.79 / 0.01"
    )
    against = [row for row in rows_of(tables, "oracle_per_patient", oracle.AgainstBestImage) if row.approach in fusions]
    low, high = published.BETTER_THAN_BEST_IMAGE
    text = "S6: patients whom fusion ranks better than their best image, about 7 to 15 per cent"
    yield inside(text, [row.better for row in against], low - 0.5, high + 0.5)
    yield order(
        "S6: more patients fall behind their best image, per cent", [[row.better, row.worse] for row in against]
    )


def _gallery_size(tables: Tables) -> Iterator[Finding]:
    rows = sorted(rows_of(tables, "gallery_size", gallery_size.SizeLine), key=lambda row: row.bin)
    of: dict[tuple[SetName, str, str], list[float]] = {}
    for row, top in product(rows, TOPS):
        of.setdefault((row.set, row.method, top), []).append(getattr(row, top))
    nearest, *centroids, hybrid = gallery_size.METHODS
    for test_set in ALL:
        curve = of[test_set, nearest, "top1"]
        text = f"S7: {SET_NAMES[test_set]}: accuracy rises with gallery images, first and last group, top-1"
        yield order(text, [[curve[0], curve[-1]]])
    uppers = [row.most_images for row in rows if (row.set, row.method) == ("freq", nearest)]
    small = [place for place, upper in enumerate(uppers) if upper < published.CENTROIDS_GAIN_BELOW_IMAGES]
    chains = [
        [of["freq", method, top][place] for method in (nearest, centroid)]
        for centroid, top, place in product(centroids, TOPS, small)
    ]
    yield order("S7: GMDB-Freq: centroids above the baseline below about 80 gallery images, top-1, 5 and 10", chains)
    largest = {(method, top): of["freq", method, top][-1] for method, top in product(gallery_size.METHODS, TOPS)}
    for top in TOP_5_AND_10:
        below = [[largest[method, top], largest[nearest, top]] for method in (*centroids, hybrid)]
        yield order(f"S7: GMDB-Freq, largest group: the baseline is the strongest approach, {top}", below)
    above = [[largest[centroid, top], largest[hybrid, top]] for centroid, top in product(centroids, TOP_5_AND_10)]
    yield order("S7: GMDB-Freq, largest group: the hybrid above both centroids, top-5 and 10", above)
    rare = [
        [one, other]
        for centroid, top in product(centroids, TOP_5_AND_10)
        for one, other in zip(of["rare", nearest, top], of["rare", centroid, top], strict=True)
    ]
    yield order("S7: GMDB-Rare: centroids above the baseline in all groups, top-5 and 10", rare)


def _ablation(tables: Tables) -> Iterator[Finding]:
    acc = _Accuracies(tables)
    by_image, by_patient = (Method("embedding", score) for score in ("image-centroid", "patient-centroid"))
    for test_set in MULTI:
        text = f"S8, S8.1: {SET_NAMES[test_set]}: image-weighted above patient-weighted centroid, fused, top-1"
        yield order(text, acc.chains(test_set, [by_patient, by_image], ["top1"]))
        behind = acc(test_set, FULL) - max(acc(test_set, by_image), acc(test_set, by_patient))
        text = f"S8, S8.1: {SET_NAMES[test_set]}: pure centroids similar to the hybrid or better, top-1, points behind"
        yield at_most(text, [behind], SIMILAR, "similar")
    for test_set in SETS:
        gains = [acc(test_set, FULL, gallery=x) - acc(test_set, BASELINE, gallery=x) for x in ("split", "unified")]
        text = (
            f"S8, S8.2: {SET_NAMES[test_set]}: similar gain of the full method in both galleries, top-1, points apart"
        )
        yield at_most(text, [abs(gains[0] - gains[1])], SHARE, "similar")


def _confounders(tables: Tables) -> Iterator[Finding]:
    rows = rows_of(tables, "confounders", Correlation)
    frequent = [row for row in rows if row.set == "multi-freq"]
    outside = [row.variable for row in frequent if not row.ci_low <= 0 <= row.ci_high]
    shown = ", ".join(outside) or f"none of {len(frequent)}" if frequent else ""
    text = "S9: GMDB-Multi-Freq: variables whose interval does not cover zero"
    yield finding(text, "none", "none", shown, holds=not outside)
    of = {(row.set, row.variable): row for row in rows}
    for (test_set, variable), printed in published.CONFOUNDERS.items():
        row = of[test_set, variable]
        text = f"S9: {SET_NAMES[test_set]}: correlation of the gain with {variable}"
        yield near(text, [row.rho], [printed], RHO)
        rule, holds = "does not cover zero", not row.ci_low <= 0 <= row.ci_high
        yield finding(f"{text}, its interval", rule, "", f"{row.ci_low:.2f} to {row.ci_high:.2f}", holds=holds)


def _proportional(tables: Tables) -> Iterator[Finding]:
    alone, in_hybrid = (
        {(row.set, row.gallery, row.alpha): row for row in rows_of(tables, name, AlphaLine)}
        for name in ("proportional", "proportional_hybrid")
    )

    def gains(test_set: SetName, gallery: GalleryName, *alphas: float) -> list[float]:
        return [alone[test_set, gallery, alpha].delta_top5 for alpha in alphas]

    split = gains("freq", "split", 0.05, 0.1, 0.2)
    yield signs("S10: GMDB-Freq in its own gallery: improves up to about alpha 0.2, top-5, points", split, 1)
    split = [abs(value) for value in gains("rare", "split", 0.05, 0.1, 0.2)]
    yield at_most("S10: GMDB-Rare in its own gallery: mostly unaffected there, top-5, points", split, SIMILAR, "mostly")
    for test_set in ALL:
        where, row = f"S10: {SET_NAMES[test_set]}, unified: ", alone[test_set, "unified", 0.05]
        both = gains(test_set, "unified", *published.BOTH_SETS_IMPROVE_FOR_ALPHA)
        yield signs(where + "improves at alpha 0.05 and 0.1, top-5, points", both, 1)
        overall = [row.delta_top1, row.delta_top5, row.delta_top10]
        yield signs(where + "alpha 0.05 improves top-1, 5 and 10, points", overall, 1)
    text = "S10: GMDB-Freq, unified: negative beyond about alpha 0.1, at 0.2, 0.3 and 0.5, top-5, points"
    yield signs(text, gains("freq", "unified", 0.2, 0.3, 0.5), -1)
    text = "S10: GMDB-Rare, unified: keeps improving up to alpha 0.5, at 0.1, 0.2 and 0.5, top-5"
    yield order(text, [gains("rare", "unified", 0.1, 0.2, 0.5)])
    alphas = {alpha for _, _, alpha in alone}
    largest = [max(gains(test_set, "unified", *alphas)) for test_set in ALL]
    yield order("S10: the largest gain is larger on GMDB-Rare than on GMDB-Freq, unified, top-5", [largest])
    rest = in_hybrid["rare", "unified", 0.05].over_hybrid_top5 or 0
    half = gains("rare", "unified", 0.05)[0] / 2
    text = "S10: GMDB-Rare: inside the hybrid less than half of the gain remains, alpha 0.05, top-5"
    yield order(text, [[rest, half]], "a fraction")
    added = in_hybrid["freq", "unified", 0.05].over_hybrid_top5 or 0
    yield at_most("S10: GMDB-Freq: inside the hybrid it adds nothing, alpha 0.05, top-5, points", [added], 0)


_CHECKS: tuple[Callable[[Tables], Iterator[Finding]], ...] = (
    *(_splits, _patient_level, _disorder_level, _full, _rank_changes, _distances, _validation, _sensitivity),
    *(_number_of_images, _oracle, _gallery_size, _ablation, _confounders, _proportional),
)
