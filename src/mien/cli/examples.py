"""The examples at the end of the help texts; tests run them."""

from __future__ import annotations

import typer

EXAMPLES = {
    "demo": ["mien demo", "mien demo --serve"],
    "simulate": ["mien simulate simulated"],
    "gallery build": [
        "mien gallery build clinic --photos photos --metadata photos.csv",
        "mien gallery build gallery --encodings all_encodings.csv --metadata gallery_images.csv gmdb_syndromes.tsv",
    ],
    "gallery add": ["mien gallery add gallery --encodings all_encodings.csv --metadata more_images.csv"],
    "gallery add-faces": ["mien gallery add-faces gallery --photos crops"],
    "gallery remove-patient": ["mien gallery remove-patient gallery 103"],
    "gallery info": ["mien gallery info gallery"],
    "gallery describe": ["mien gallery describe gallery --disorders disorders.csv"],
    "gallery verify": ["mien gallery verify gallery"],
    "gallery export": ["mien gallery export gallery --out gallery.parquet"],
    "gallery backup": ["mien gallery backup gallery --out backup"],
    "gallery restore": ["mien gallery restore backup restored"],
    "gallery upgrade": ["mien gallery upgrade gallery"],
    "rank": [
        "mien rank --gallery clinic new/front.jpg new/smile.jpg",
        "mien rank --gallery gallery --encodings all_encodings.csv --metadata test_images.csv --out ranking.tsv",
    ],
    "calibrate": ["mien calibrate --gallery gallery"],
    "tune": ["mien tune --gallery gallery"],
    "cohort": ["mien cohort patients.parquet --gallery gallery --out cohort_report"],
    "combine": [
        "mien rank --gallery gallery --encodings patient.parquet --top all --out answer.json",
        "mien combine answer.json --lirical lirical.json --hpo hp.json",
    ],
    "evaluate": ["mien evaluate --cohort cohort.csv --folds 2 --all-methods"],
    "reproduce": ["mien reproduce --out report", "mien reproduce --only headline --out headline"],
    "encode": ["mien encode photos --out encodings.parquet"],
    "weights list": ["mien weights list"],
    "weights get": ["mien weights get"],
    "weights convert": ["mien weights convert glint360k_r100.onnx --as gm-arc/m2"],
    "weights verify": ["mien weights verify"],
    "train": ["mien train --preset m0 --base r50.onnx --images crops --train train.csv --val val.csv --out m0"],
    "serve": ["mien serve --gallery clinic", "mien serve --gallery clinic --tokens tokens --audit audit.jsonl"],
    "tokens add": ["mien tokens add tokens anna boris"],
    "tokens list": ["mien tokens list tokens"],
    "tokens revoke": ["mien tokens revoke tokens boris"],
    "audit verify": ["mien audit verify audit.jsonl"],
    "bench": ["mien bench --size 0.1"],
}


def add_examples(app: typer.Typer, group: str = "") -> None:
    """Ends the help of each command with its examples."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        if examples := EXAMPLES.get(f"{group}{name}"):
            command.epilog = "\n\n".join(["Example:" if len(examples) == 1 else "Examples:", *examples])
    for inner in app.registered_groups:
        if inner.typer_instance is not None:
            add_examples(inner.typer_instance, f"{group}{inner.name} ")
