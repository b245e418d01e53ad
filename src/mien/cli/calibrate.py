"""`mien calibrate` and `mien tune`: what is learned from a gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.answers.calibration import PRIOR_OF_NONE
from mien.answers.ranking import calibration_in_words
from mien.cli import options, show
from mien.core.cohort import Cohort
from mien.core.method import FULL, Method
from mien.storage.formats.gmdb_tables import read_metadata
from mien.storage.formats.prior_table import read_prior
from mien.storage.gallery import Gallery
from mien.storage.learned import store_calibration, store_tuned
from mien.storage.loading import Source, load_cohort

GalleryOption = Annotated[Path, typer.Option("--gallery", help="The gallery's directory.")]
CohortOption = Annotated[
    Path | None,
    typer.Option(
        "--cohort",
        readable=False,
        help="Other patients to learn from, for the disorders that they have: a cohort table, or encodings with"
        " --metadata. Needed where the encoder was trained on the gallery's own patients.",
    ),
]
TrainedOption = Annotated[
    list[Path] | None,
    typer.Option("--trained", help="Tables of patients whom the encoder was trained on: nothing is learned from them."),
]
TRAINED_ENCODER = (
    "The encoder was fine-tuned: if on these patients, leaving one out is too kind. Give others with --cohort."
)


@options.with_method
def calibrate(
    gallery: GalleryOption,
    cohort: CohortOption = None,
    metadata: options.MetadataOption = None,
    trained: TrainedOption = None,
    method: Method | None = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="A table disorder_id, prior for every disorder and for 'none of these'.", readable=False),
    ] = None,
    none: Annotated[
        float | None, typer.Option(help="How often it is none of these, without a --prior table.  [default: 0.05]")
    ] = None,
    seed: options.SeedOption = 1,
    json: options.JsonOption = False,
) -> None:
    """Learn what distances mean in a gallery: likelihood ratios, "none of these", prediction sets."""
    from mien.evaluation.calibrating import calibrate as learn  # noqa: PLC0415 heavy

    if prior is not None and none is not None:
        raise typer.BadParameter("--prior says it of none of these too: give either")
    opened = Gallery.open(gallery)
    priors = read_prior(prior) if prior else None
    others = _load_others(cohort, metadata)
    with show.progress("calibrating") as report:
        calibration = learn(
            opened,
            opened.tuned_method if method is options.TUNED else method or FULL,
            cohort=others,
            trained=_patients(trained),
            prior=priors,
            prior_of_none=PRIOR_OF_NONE if none is None else none,
            caution=TRAINED_ENCODER
            if others is None and opened.encoder and opened.encoder.trained_on_syndromes
            else "",
            seed=seed,
            progress=report,
        )
    store_calibration(gallery, calibration)
    show.print_result(calibration.as_dict(), *map(show.printable, calibration_in_words(calibration)), as_json=json)


def tune(
    gallery: GalleryOption,
    cohort: CohortOption = None,
    metadata: options.MetadataOption = None,
    trained: TrainedOption = None,
    seed: options.SeedOption = 1,
    json: options.JsonOption = False,
) -> None:
    """Fit the size-aware score to a gallery, on patients left out of it; use it with --method tuned."""
    from mien.evaluation.tuning import tune as fit  # noqa: PLC0415 heavy

    opened = Gallery.open(gallery)
    others = _load_others(cohort, metadata)
    with show.progress("tuning") as report:
        found = fit(opened, cohort=others, trained=_patients(trained), seed=seed, progress=report)
    facts = {"patients": found.patients, "gains": [gain._asdict() for gain in found.gains]}
    store_tuned(gallery, opened.fingerprint, found.method, facts)
    words = ", ".join(f"{name} {value}" for name, value in found.method.as_dict().items())
    show.print_result(
        {"method": found.method.as_dict(), **facts},
        f"[bold]fitted[/]  {show.printable(words)}\n",
        *(f"{name}: {gain:+.2f} points to full ({low:+.2f} to {high:+.2f})" for name, gain, low, high in found.gains),
        f"Gains are of {found.patients:,} patients whom the fit had not seen, in galleries thinned from this one."
        " Use it with --method tuned.",
        as_json=json,
    )


def _load_others(cohort: Path | None, metadata: list[Path] | None) -> Cohort | None:
    if cohort is None:
        if metadata:
            raise typer.BadParameter("--metadata belongs to --cohort")
        return None
    with show.progress("reading the cohort") as report:
        loaded, left_out = load_cohort(Source(cohort, metadata or ()), report)
    show.print_left_out(left_out)
    return loaded


def _patients(tables: list[Path] | None) -> set[str]:
    return set(read_metadata(tables, labelled=False).patient_of.values()) if tables else set()
