"""`python -m faults`: breaks things as often as told, prints what came of it, and ends with 1 if anything was wrong.

`soak` and `giveaway` are measured by themselves.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from mien.version import __version__

from faults.bits import large_bits, small_bits
from faults.giveaway import GOALS, giveaway
from faults.interruptions import full_disks, kills
from faults.operations import OPERATIONS
from faults.photos import mutated_photos
from faults.soak import soak
from faults.tally import markdown, table

KINDS = {  # how often, and how often in a sample
    "kills": (kills, 2_000, 60),
    "small_bits": (small_bits, 1_000_000, 600),
    "large_bits": (large_bits, 5_000, 100),
    "disks": (full_disks, 1_000, 40),
    "photos": (mutated_photos, 100_000, 4_000),
}
MEMORY = Path("/dev/shm")


def main():
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["faults", "soak", "giveaway"], default="faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", action="store_true", help="a few minutes of it")
    parser.add_argument("--minutes", type=int, default=10, help="of soak")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--commands", default="", help="interrupt only commands whose names begin so")
    for kind, (_, usual, sample) in KINDS.items():
        how_many = f"how many; else {usual:,}, in a sample {sample:,}"
        parser.add_argument(f"--{kind.replace('_', '-')}", type=int, help=how_many)
    arguments = parser.parse_args()
    figures, sound = {"faults": _faults, "soak": _soak, "giveaway": _giveaway}[arguments.what](arguments)
    print(f"\nmien {__version__}, {time.strftime('%Y-%m-%d')}, seed {arguments.seed}: {'' if sound else 'NOT '}sound")
    if arguments.out:
        facts = {"mien": __version__, "date": time.strftime("%Y-%m-%d"), "seed": arguments.seed, **figures}
        arguments.out.write_text(json.dumps(facts, indent=1) + "\n")
    sys.exit(not sound)


def _faults(arguments):
    asked = {kind: getattr(arguments, kind) for kind in KINDS}
    if not any(asked.values()):
        asked = {kind: sample if arguments.sample else usual for kind, (_, usual, sample) in KINDS.items()}
    chosen = [each for each in OPERATIONS if each.name.startswith(arguments.commands)]
    tallies = []
    for kind, count in asked.items():
        if count:
            with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
                more = [chosen] if kind in {"kills", "disks"} else []
                tallies.append(KINDS[kind][0](count, arguments.seed, Path(folder), *more).as_dict())
    print(table(tallies))
    return {"kinds": tallies}, not any(tally["faults"] for tally in tallies)


def _soak(arguments):
    figures = soak(arguments.minutes)
    print(json.dumps(figures, indent=1))
    return figures, figures["sound"]


def _giveaway(arguments):
    rows = list(giveaway(1_000 if arguments.sample else 16_000, arguments.seed))
    print(markdown(["encoder", "answers", "reconstructed", *(f"for {goal}" for goal in GOALS)], rows))
    return {"rows": rows}, True


if __name__ == "__main__":
    main()
