"""Every stored byte that has a checksum, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mien.core.errors import CorruptGalleryError, shown
from mien.storage.database import DATABASE, checksum_of_image, connection, fingerprint, read_disorders, snapshot, state
from mien.storage.index_files import damaged_rows


def problems(directory: Path) -> Iterator[str]:
    """A line for each row of the gallery that is damaged, in the database and in the index."""
    with connection(directory) as database, snapshot(database):
        now = state(database)
        yield from (f"{DATABASE}: {line}" for (line,) in database.execute("PRAGMA integrity_check") if line != "ok")
        for table, row, target, _ in database.execute("PRAGMA foreign_key_check"):
            yield f"{DATABASE}: row {row} of table {table} points to a row of table {target} that is not there"
        for disorder, sound in read_disorders(database):
            if not sound:
                yield f"{DATABASE}: disorder {shown(disorder.disorder_id)} is damaged"
        for image_key, image_id, patient_id, disorder_ids, checksum, embedding in database.execute(
            "SELECT image_key, image_id, coalesce(patient_id, ''), (SELECT json_group_array(disorder_id) FROM label"
            " JOIN disorder USING (disorder_key) WHERE label.image_key = image.image_key), checksum, embedding"
            " FROM image LEFT JOIN patient USING (patient_key) ORDER BY image_key"
        ):
            if checksum != checksum_of_image(image_id, patient_id, json.loads(disorder_ids), embedding):
                yield (
                    f"{DATABASE}: row {image_key} of table image is damaged"
                    f" (image {shown(image_id)} of patient {shown(patient_id)})"
                )
        if now.erasing:
            yield f"{DATABASE}: a removal is not finished: repeat it to erase the last bytes"
        if now.fingerprint != fingerprint(database):
            yield f"{DATABASE}: rows are missing or were added"
    try:
        yield from damaged_rows(directory, now.generation, now.fingerprint)
    except FileNotFoundError:
        pass  # an index can always be made again
    except (CorruptGalleryError, ValueError) as error:
        yield str(error)
