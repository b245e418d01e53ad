"""Cohort: is a group as alike as patients of one disorder are?"""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.cohort_rows import CohortPatient, GroupResult, ThresholdPoint
from mien.evaluation.experiment_context import Tables, rows_of
from mien.report.cohort_figures.ranks import group_colours
from mien.report.figures.style import INK, PALE, panels
from mien.report.figures.tsne import short

SAME_COLOUR, DIFFERENT_COLOUR = "#a87f32", "#8a8f98"


def draw(tables: Tables) -> Figure:
    """Left: how many pairs of gallery patients are as close. Right: both shares against each other (ROC)."""
    points = rows_of(tables, "threshold", ThresholdPoint)
    groups = [group for group in rows_of(tables, "groups", GroupResult) if group.mean_distance is not None]
    colour_of = group_colours(rows_of(tables, "patients", CohortPatient))
    figure, [shares, roc] = panels(1, 2, height=4.6)
    distances = [point.distance for point in points]
    same = [100 * point.same_disorder for point in points]
    different = [100 * point.different_disorder for point in points]
    shares.plot(distances, same, color=SAME_COLOUR, linewidth=1.8, label="same disorder")
    shares.plot(distances, different, color=DIFFERENT_COLOUR, linewidth=1.8, label="different disorders")
    seen = [d for d, a, b in zip(distances, same, different, strict=True) if a > 0.5 and b < 99.5]
    shares.set(xlim=(min(seen, default=0), max(seen, default=2)), ylim=(0, 100))
    shares.set(title="Two gallery patients, as close as this", xlabel="Distance", ylabel="Pairs (%)")
    shares.legend(loc="upper left", title="Two patients with the")
    roc.plot([0, 100], [0, 100], color=PALE, linewidth=0.8, linestyle="--")
    roc.plot([0, *different], [0, *same], color=INK, linewidth=1.6)
    for place, group in enumerate(groups):
        colour = colour_of[group.group]
        assert group.mean_distance is not None
        dashes = (5 * place, (5, 5 * (min(len(groups), 4) - 1))) if len(groups) > 1 else "-"  # equal ones are seen, too
        shares.axvline(group.mean_distance, color=colour, linewidth=2, linestyle=dashes)
        point = 100 * (group.different_disorder_share or 0), 100 * (group.same_disorder_share or 0)
        size = 7 + 4 * (place % 3)
        roc.plot(*point, "o", color=colour, label=short(group.group), ms=size, mew=2, fillstyle="none")
    roc.set(title="The same as a curve, with the groups on it", xlim=(0, 100), ylim=(0, 100), aspect="equal")
    roc.set(xlabel="Pairs with different disorders as close (%)", ylabel="Pairs with the same disorder as close (%)")
    roc.legend(title="Mean distance in the group", loc="lower right")
    return figure
