"""How sure an answer is, in words: for the command line and the page."""

from __future__ import annotations

from mien.core.answers import CalibrationFacts, Ranking
from mien.core.calibration import Calibration

FEWEST_TO_SAY = 10  # left-out patients with such an answer
LIKELY_NONE = 0.5


def sureness_in_words(ranking: Ranking) -> list[str]:
    """Sentences about an answer with a calibration; none without."""
    facts, none, chosen = ranking.calibration, ranking.none_of_these, ranking.prediction_set
    if facts is None or none is None or chosen is None:
        return []
    first = ranking.disorders[0]
    name = first.disorder_name or first.disorder_id
    lines = [f"{name} has a probability of {percent(first.probability or 0)}. {such_answers(facts)}"]
    if none > LIKELY_NONE:
        lines.append(f"Possibly none of these: with {percent(none)}, the disorder is not in this gallery.")
    else:
        lines.append(f"None of these: {percent(none)}.")
    count = len(chosen.disorder_ids)
    of_set = f"{count} disorder{'s' * (count > 1)}" if count else "no disorder: none is close enough"
    lines.append(
        f"The list that holds the true disorder of {percent(chosen.coverage)} of patients, where the gallery has it,"
        f" has {of_set}."
    )
    if facts.stale:
        lines.append(
            f"This was learned from generation {facts.generation} of the gallery, which has changed since: run"
            " 'mien calibrate' again."
        )
    return [*lines, facts.caution] if facts.caution else lines


def such_answers(facts: CalibrationFacts) -> str:
    """How often an answer as sure as this one was right.

    >>> such_answers(CalibrationFacts(90, 1, False, 0.05, 2.0, 77, 54, ""))
    'Of 77 left-out patients with such an answer, 7 in 10 had the first disorder.'
    """
    patients, right = facts.patients_with_such_an_answer, facts.of_them_right
    if patients < FEWEST_TO_SAY:
        return f"Only {patients} left-out patients had such an answer: too few to say how often it is right."
    share = round(10 * right / patients)
    words = {0: "hardly any", 10: "nearly all"}.get(share, f"{share} in 10")
    return f"Of {patients} left-out patients with such an answer, {words} had the first disorder."


def percent(share: float) -> str:
    """A probability for people.

    >>> percent(0.714), percent(0.004), percent(0.999)
    ('71 %', 'less than 1 %', 'more than 99 %')
    """
    if share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def calibration_in_words(calibration: Calibration) -> list[str]:
    """What a calibration was learned from, and what it is worth."""
    own = calibration.patients - calibration.from_cohort
    sources = [f"{own:,} left-out gallery patients"] * (own > 0)
    sources += [f"{calibration.from_cohort:,} patients of the cohort"] * (calibration.from_cohort > 0)
    priors = "given for each disorder" if calibration.prior else "all disorders as likely"
    lines = [
        f"Learned from {' and '.join(sources)}, each asked about with and without their disorder in the gallery.",
        f"Prior of none of these: {percent(calibration.prior_of_none)} ({priors}).",
        f"Likelihood ratios are capped at {10**calibration.largest_log10_ratio:,.0f}, the number of patients.",
        "How often the first disorder was right, of patients whom the model had not seen:",
    ]
    before = 0.0
    for each in calibration.reliability:
        if each.patients:
            share = f"{each.right} of {each.patients} ({percent(each.right / each.patients)})"
            lines.append(f"  said {100 * before:.0f} to {100 * each.most:.0f} %: {share}")
        before = each.most
    return [*lines, calibration.caution] if calibration.caution else lines
