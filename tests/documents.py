"""The commands that documents show, and a folder in which they run."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from typer.main import get_command

from mien import Cohort, Encodings, Gallery, Label
from mien.cli.main import app, repeat_option
from mien.service.audit import AuditLog
from mien.simulation.photos import DrawnPerson
from mien.storage.formats.cohort_parquet import write_cohort_parquet

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DISORDERS, PATIENTS_EACH, REPRESENTATIONS, DIMENSIONS = 6, 10, 12, 8
FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(?:\$ )?mien\s([^`]+)`(?!`)")


class Shown(NamedTuple):
    """The commands of a document, without the word `mien`: whole ones, and mentions that may leave things out."""

    commands: list[str]
    mentions: list[str]


@cache
def program():
    """The command line, as a tree of commands."""
    return get_command(app)


def shown_in(text: str) -> Shown:
    """What a document in Markdown shows: lines of its code blocks, and words in a line.

    Where lines of a block begin with `$`, the others are what the program answers.
    """
    commands = []
    for block in FENCED.findall(text):
        prompt = r"\$ " if re.search(r"^ *\$ ", block, flags=re.MULTILINE) else ""
        commands += re.findall(rf"^ *{prompt}mien (.+)$", block.replace("\\\n", " "), flags=re.MULTILINE)
    whole = [shlex.join(shlex.split(one, comments=True)) for one in commands if "$" not in one]
    mentions = [" ".join(one.split()) for one in INLINE.findall(FENCED.sub("", text))]
    return Shown(whole, mentions + [one for one in commands if "$" in one])


def shown_on_page(page: str) -> Shown:
    """What a file of the project shows."""
    return shown_in((ROOT / page).read_text())


def shown_in_help() -> list[str]:
    """The examples at the end of all help texts."""
    return [one for _, command in all_commands() for one in shown_in(f"```\n{command.epilog or ''}\n```").commands]


def all_commands():
    """(words, command) of every command, groups left out."""
    waiting = [((), program())]
    while waiting:
        words, command = waiting.pop(0)
        inner = getattr(command, "commands", {})
        waiting = [((*words, name), each) for name, each in inner.items()] + waiting
        if not inner:
            yield words, command


def parse_mention(mention: str) -> None:
    """Refuses a mention of a command that is not there, or of an option that it has not."""
    words, command = re.findall(r"[^\s\[\]]+", mention), program()
    known = {"--help", "-h", "--version"}
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if words and getattr(command, "commands", {}) and words[0] not in {*known, "..."}:
        raise AssertionError(f"mien {mention}: there is no command {words[0]!r}")
    known |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    for option in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", mention.replace("-- '", "")):
        assert option in known, f"mien {mention}: there is no option {option}"


def parse(command: str) -> None:
    """Parses a whole command as the program does, without running it; wrong usage is an error."""
    words, found = repeat_option(shlex.split(command)), program()
    while words and words[0] in getattr(found, "commands", {}):
        found = found.commands[words.pop(0)]
    assert words[:1] in ([], ["--help"], ["--version"]) or not getattr(found, "commands", {}), f"mien {command}"
    if not getattr(found, "commands", {}):
        found.make_context(f"mien {command}", words)


def write_files(directory: Path, *, with_photos: bool) -> None:
    """All files that documents speak of; galleries: `gallery` of encodings, `clinic` of photos, `north` and `south`.

    Everybody is drawn. Where there is no encoder for photos, there is no `clinic`.
    """
    rng = np.random.default_rng(1)
    faces = rng.standard_normal((DISORDERS, REPRESENTATIONS, DIMENSIONS))
    cohort = _people(rng, faces, range(1, 1 + DISORDERS * PATIENTS_EACH))
    unsolved = _people(rng, faces[:1], range(201, 206))
    _write_tables(directory, cohort, unsolved)
    _write_what_others_say(directory)
    _write_photos(directory, rng)
    Gallery.build(directory / "gallery", cohort)
    for name, disorders in {"north": {"0", "1", "2"}, "south": {"3", "4", "5"}}.items():
        labels = [label for label in cohort.roster.labels() if label.disorder_id in disorders]
        ids = {label.image_id for label in labels}
        rows = [row for row, image_id in enumerate(cohort.encodings.image_ids) if image_id in ids]
        Gallery.build(directory / name, Cohort.join(cohort.encodings.only(rows), labels))
    if with_photos:
        from mien import encode

        ids = sorted(path.name for path in (directory / "photos").iterdir())
        labels = [Label(name, f"patient {name[0]}", f"disorder {int(name[0]) % 3}") for name in ids]
        Gallery.build(directory / "clinic", Cohort.join(encode(directory / "photos"), labels))


def _people(rng, faces, patients):
    """A cohort of one or two photos of each patient; ids are numbers, as in GMDB."""
    labels, embeddings = [], []
    for patient in patients:
        disorder = patient % len(faces)
        person = faces[disorder] + rng.standard_normal(faces[0].shape)
        for photo in range(1 + patient % 2):
            embeddings.append(person + 0.3 * rng.standard_normal(faces[0].shape))
            labels.append(Label(str(10 * patient + photo), str(100 + patient), str(disorder)))
    return Cohort.join(Encodings.of([label.image_id for label in labels], np.array(embeddings, np.float32)), labels)


def _write_tables(directory, cohort, unsolved):
    def write_parquet(name, some):
        write_cohort_parquet(
            directory / name, some.roster, some.encodings.encoder, partial(np.take, some.embeddings, axis=0)
        )

    write_parquet("cohort.parquet", cohort)
    write_parquet("patients.parquet", unsolved)
    first = [label for label in unsolved.roster.labels() if label.patient_id == unsolved.roster.patient_ids[0]]
    write_parquet("patient.parquet", Cohort.join(unsolved.encodings.only(range(len(first))), first))
    rows = ["image_id,patient_id,disorder_id,embedding"]
    encodings = ["img_name;model;flip;gray;class_conf;representations"]
    lines = {"gallery_images": [], "more_images": [], "test_images": []}
    for some in (cohort, unsolved):
        embedding_of = dict(zip(some.encodings.image_ids, some.embeddings.tolist(), strict=True))
        for image, patient, disorder in some.roster.labels():
            name = "test_images" if some is unsolved else "gallery_images" if int(patient) <= 140 else "more_images"
            lines[name].append(f"{image},{patient},{disorder}")
            if some is cohort:
                rows.append(f'{image},{patient},{disorder},"{embedding_of[image]}"')
            views = [(model, flip, gray) for model in range(3) for flip in (0, 1) for gray in (0, 1)]
            for (model, flip, gray), vector in zip(views, embedding_of[image], strict=True):
                encodings.append(f"{image}_rot_aligned.jpg;m{model};{flip};{gray};[0];{vector}")
    for name, content in {
        "cohort": rows,
        **{name: ["image_id,subject,label", *of] for name, of in lines.items()},
    }.items():
        (directory / f"{name}.csv").write_text("\n".join(content) + "\n")
    (directory / "all_encodings.csv").write_text("\n".join(encodings) + "\n")
    names = "".join(f"{n}\tSyndrome {n}\t10000{n}\n" for n in range(DISORDERS))
    (directory / "gmdb_syndromes.tsv").write_text(f"syndrome_id\tsyndrome_name\tOMIM\n{names}")
    facts = "".join(f"{line.split(',')[0]}\tfemale\t{n % 30}\t0\n" for n, line in enumerate(chain(*lines.values())))
    (directory / "image_metadata.tsv").write_text(f"image_id\tgender\tage_year\tage_month\n{facts}")


def _write_what_others_say(directory):
    """What is known of disorders, a phenopacket, what LIRICAL said, and an audit log."""
    genes = "".join(f"{n},OMIM:10000{n},G{n},{n},ENSG0000000000{n}\n" for n in range(DISORDERS))
    (directory / "disorders.csv").write_text(f"disorder_id,curie,gene_symbol,entrez_id,ensembl_id\n{genes}")
    packet = {"id": "1", "subject": {"id": "anna"}, "files": [{"uri": "new/front.jpg"}]}
    version = {"metaData": {"phenopacketSchemaVersion": "2.0.2"}}
    (directory / "packet.json").write_text(json.dumps(packet | version))
    columns = "rank\tdiseaseName\tdiseaseCurie\tpretestprob\tposttestprob\tcompositeLR"
    row = "1\tX\tOMIM:100001\t1/8000\t1.00%\t1.5"
    (directory / "lirical.tsv").write_text(f"! LIRICAL TSV Output (2.0.2)\n{columns}\n{row}\n")
    terms = {"observedPhenotypicFeatures": [{"query": "HP:0000508", "lr": 3.0}], "excludedPhenotypicFeatures": []}
    result = {"diseaseId": "OMIM:100001", "compositeLR": 30.0, **terms}
    content = {"analysisMetadata": {"liricalVersion": "2.0.2"}, "analysisResults": [result]}
    (directory / "lirical.json").write_text(json.dumps(content))
    pairs = [("0000252", "0000234"), ("0000369", "0000356"), ("0000508", "0030669")]
    edges = [{"sub": f"obo/HP_{child}", "pred": "is_a", "obj": f"obo/HP_{parent}"} for child, parent in pairs]
    (directory / "hp.json").write_text(json.dumps({"graphs": [{"edges": edges}]}))
    log = AuditLog(directory / "audit.jsonl")
    log.write("started", version="0.1.0", generation=1)
    log.close()


def _write_photos(directory, rng):
    """Folders of portraits with their tables, two more photos of somebody, and crops of images in `gallery`."""
    for folder, numbers in {"photos": range(6), "new_patients": range(6, 8)}.items():
        lines = ["image_id,subject,label"]
        for number in numbers:
            person = DrawnPerson.drawn(rng)
            lines.append(f"{number}.jpg,patient {number},disorder {number % 3}")
            names = [directory / folder / f"{number}.jpg"]
            names += [directory / "new" / name for name in ("front.jpg", "smile.jpg") if number == 0]
            for name in names:
                name.parent.mkdir(exist_ok=True)
                Image.fromarray(person.photo(rng)).save(name)
        (directory / f"{folder}.csv").write_text("\n".join(lines) + "\n")
    (directory / "crops").mkdir()
    for image_id in ("10", "11", "20"):
        crop = rng.integers(0, 255, (112, 112, 3), dtype=np.uint8)
        Image.fromarray(crop).save(directory / "crops" / f"{image_id}_rot_aligned.jpg")
