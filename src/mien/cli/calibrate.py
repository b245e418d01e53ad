"""`mien calibrate` and `mien tune`: what is learned from a gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.core.cohort import Cohort
from mien.core.method import FULL, Method
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
SeedOption = Annotated[int, typer.Option("--seed", help="Behind every random number.", min=0)]
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
    seed: SeedOption = 1,
    json: options.JsonOption = False,
) -> None:
    """Learn what distances mean in a gallery: likelihood ratios, "none of these", prediction sets."""
    from mien.core.calibration import PRIOR_OF_NONE  # noqa: PLC0415
    from mien.evaluation.calibrating import calibrate as learn  # noqa: PLC0415 heavy
    from mien.report.sureness import calibration_in_words  # noqa: PLC0415

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
            caution=TRAINED_ENCODER if others is None and _fine_tuned(opened) else "",
            seed=seed,
            progress=report,
        )
    store_calibration(gallery, calibration)
    if json:
        show.print_json(calibration.as_dict())
    else:
        for line in calibration_in_words(calibration):
            show.console().print(show.text(line), soft_wrap=True)


def tune(
    gallery: GalleryOption,
    cohort: CohortOption = None,
    metadata: options.MetadataOption = None,
    trained: TrainedOption = None,
    objective: Annotated[
        str,
        typer.Option(help="accuracy (0.5, 0.25, 0.15 and 0.1 of top-1, 5, 10 and 30, as in the paper) or likelihood."),
    ] = "accuracy",
    seed: SeedOption = 1,
    json: options.JsonOption = False,
) -> None:
    """Choose the score and weights that fit a gallery, on left-out patients; use them with --method tuned."""
    from mien.evaluation.tuning import tune as choose  # noqa: PLC0415 heavy

    if objective not in {"accuracy", "likelihood"}:
        raise typer.BadParameter("choose accuracy or likelihood", param_hint="--objective")
    opened = Gallery.open(gallery)
    others = _load_others(cohort, metadata)
    with show.progress("tuning") as report:
        found = choose(
            opened,
            objective=objective,  # type: ignore[arg-type] # it was checked
            cohort=others,
            trained=_patients(trained),
            seed=seed,
            progress=report,
        )
    facts = {name: value for name, value in found._asdict().items() if name != "method"}
    store_tuned(gallery, opened.fingerprint, found.method, facts)
    if json:
        show.print_json({"method": found.method.as_dict(), **facts})
        return
    unit = "points" if objective == "accuracy" else "nats"
    words = ", ".join(f"{name} {value}" for name, value in found.method.as_dict().items())
    show.console().print(f"[bold]chosen[/]  {show.text(words)}\n", soft_wrap=True)
    for what, of_gain, name in ((objective, found[3:6], unit), ("top-1", found[6:9], "points")):
        mean, low, high = of_gain
        show.console().print(f"{what}: {mean:+.2f} {name} to full ({low:+.2f} to {high:+.2f})", soft_wrap=True)
    show.console().print(
        f"Gains are of {found.patients:,} patients whom the choice had not seen. Use it with --method tuned.",
        soft_wrap=True,
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
    from mien.storage.formats.gmdb_tables import read_metadata  # noqa: PLC0415

    return set(read_metadata(tables, labelled=False).patient_of.values()) if tables else set()


def _fine_tuned(gallery: Gallery) -> bool:
    """Whether the encoder's manifest says that it was fine-tuned."""
    from mien.core.errors import MienError  # noqa: PLC0415
    from mien.encoding.store import encoder_for  # noqa: PLC0415 heavy

    try:
        models = encoder_for(gallery.encoder, None).manifest.models
    except MienError:  # not on this machine
        return False
    return any(model.trained_on for model in models)
