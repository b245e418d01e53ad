"""How sure an answer is, in words: for the command line and the page."""

from __future__ import annotations

from mien.answers.answer import CalibrationFacts, Ranking
from mien.answers.calibration import Calibration

FEWEST_TO_SAY = 10  # left-out patients with such an answer
LIKELY_NONE = 0.5
CLEAR = 0.2  # with a smaller probability, the first disorder is no clear match


def answer_in_words(ranking: Ranking, *, coarse: bool = False) -> list[str]:
    """Says what an answer is and how sure it is, the most important sentence first; a coarse answer only what it is."""
    facts, none, chosen = ranking.calibration, ranking.none_of_these, ranking.prediction_set
    first = ranking.disorders[0]
    name, probability = first.disorder_name or first.disorder_id, percent(first.probability or 0)
    if coarse:
        return [f"Most like {name}.", "This service does not say how sure that is."]
    if facts is None or none is None or chosen is None:
        unknown = "How sure that is, is not known: whoever runs this gallery can find out with 'mien calibrate'."
        return [f"Most like {name}.", unknown]
    if none > LIKELY_NONE:
        lines = [
            f"Possibly none of these: with {percent(none)}, the disorder is not in this gallery.",
            f"Its most similar one is {name}, with {probability}. {such_answers(facts)}",
        ]
    else:
        clear = (first.probability or 0) >= CLEAR
        match = f"Most like {name}, with" if clear else f"No clear match: the closest, {name}, has"
        lines = [
            f"{match} a probability of {probability}.",
            f"{such_answers(facts)} That the disorder is not in this gallery: {percent(none)}.",
        ]
    likeliest = max(ranking.disorders, key=lambda line: line.probability or 0)
    if percent(likeliest.probability or 0) != probability:
        other = likeliest.disorder_name or likeliest.disorder_id
        lines.append(f"More probable, for so many patients, is {other} at rank {likeliest.rank}.")
    count = len(chosen.disorder_ids)
    of_set = f"{count} disorder{'s' * (count > 1)}" if count else "no disorder: none is close enough"
    share = percent(chosen.coverage)
    lines.append(
        f"The {share} list, which holds the true disorder for {share} of patients whose disorder is in the gallery,"
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
    'Of 77 patients of this gallery who were left out and got an answer as sure as this, rank 1 was right for 7 in 10.'
    """
    patients, right = facts.patients_with_such_an_answer, facts.of_them_right
    if patients < FEWEST_TO_SAY:
        return f"Only {patients} left-out patients got an answer as sure as this: too few to say how often it is right."
    share = round(10 * right / patients)
    words = {0: "hardly any", 10: "nearly all"}.get(share, f"{share} in 10")
    left_out = f"Of {patients:,} patients of this gallery who were left out and got an answer as sure as this"
    return f"{left_out}, rank 1 was right for {words}."


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
