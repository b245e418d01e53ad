"""Counts what came of the tries, and shows how far they are."""

from __future__ import annotations

import sys
import time
from collections import Counter

MOST_SHOWN = 20  # faults of a kind


class Tally:
    """Outcomes of one kind of fault, by what was hit."""

    def __init__(self, kind, total):
        self.kind, self.total = kind, total
        self.outcomes = {}  # what was hit -> outcome -> how often
        self.faults = []
        self.said = self.started = time.monotonic()

    @property
    def tries(self):
        return sum(map(Counter.total, self.outcomes.values()))

    def count(self, what, outcome, number, detail=""):
        """Counts a try. An outcome that begins with "fault" is one; seed and number make it again."""
        self.outcomes.setdefault(what, Counter())[outcome] += 1
        if outcome.startswith("fault"):
            self.faults.append(f"{self.kind}, {what}, number {number}: {outcome}: {detail}")
            if len(self.faults) <= MOST_SHOWN:
                sys.stderr.write(f"\n{self.faults[-1]}\n")
        self._show()

    def _show(self):
        now = time.monotonic()
        if now - self.said > 10 or self.tries == self.total:
            self.said = now
            sys.stderr.write(f"{self.kind}: {self.tries:,} of {self.total:,}, {len(self.faults)} faults\n")

    def as_dict(self):
        return {
            "kind": self.kind,
            "tries": self.tries,
            "seconds": round(time.monotonic() - self.started),
            "outcomes": {what: dict(counts) for what, counts in self.outcomes.items()},
            "faults": self.faults,
        }


def table(tallies):
    """The figures as a Markdown table."""
    rows = []
    for tally in tallies:
        for what, outcomes in tally["outcomes"].items():
            faults = sum(count for outcome, count in outcomes.items() if outcome.startswith("fault"))
            told = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items(), key=lambda x: -x[1]))
            rows.append([tally["kind"], what, f"{sum(outcomes.values()):,}", told, faults])
    return markdown(["kind", "what", "tries", "what came of it", "faults"], rows)


def markdown(head, rows):
    """Rows under a head."""
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows])
