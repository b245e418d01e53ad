"""A calibrated answer and a result of LIRICAL as one list, each part beside the sum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mien.answers.combination import combined_probabilities, mean_log10_ratio
from mien.answers.ranking import NOTICE
from mien.errors import InvalidFileError
from mien.report.rankings import DIGITS, as_plain_values
from mien.storage.formats.lirical import Lirical
from mien.version import TOOL

WHOLE = 0.99  # of the probability: an answer has more if it lacks only disorders of the patient's own
LINE = {"rank", "disorder_id", "disorder_name", "omim"}
SURENESS = {"log10_likelihood_ratio", "probability"}
BOTH = ["face", "lirical"]


def read_answer(path: Path) -> dict[str, Any]:
    """The JSON of one calibrated answer with all disorders."""
    problem = InvalidFileError(path, ["it is no answer of 'mien rank --json' for one patient"])
    try:
        answer: dict[str, Any] = json.loads(path.read_bytes())
        [query] = answer["queries"]
        answer["method"], query["patient_id"], query["excluded_gallery_patients"]
        lines, none = query["disorders"], query.get("none_of_these")
        whole = all(line.keys() >= LINE for line in lines)
        calibrated = none is not None and all(line.keys() >= SURENESS for line in lines)
        numbers = np.array(
            [[none or 0, 0], *([line.get(name, 0) for name in sorted(SURENESS)] for line in lines)], float
        )
        missing = answer["gallery"]["disorders"] - len(lines)
    except OSError as error:
        raise InvalidFileError(path, [f"{error.strerror}: check the path"]) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise problem from error
    if not (whole and np.isfinite(numbers).all()):
        raise problem
    if not calibrated:
        raise InvalidFileError(path, ["it has no likelihood ratios: run 'mien calibrate', then 'mien rank' again"])
    if missing > 0 and (not query["excluded_gallery_patients"] or numbers[1:, 1].sum() + none < WHOLE):
        raise InvalidFileError(path, [f"{missing} disorders of the gallery are not in it: rank with --top all"])
    return answer


def combined_document(answer: Mapping[str, Any], lirical: Lirical, weight: float) -> dict[str, Any]:
    """Joins the disorders of both sides. One that a side does not know has the likelihood ratio 1 there.

    What the face leaves for none of these is shared equally by the diseases that only LIRICAL knows and, as one more
    share, by all that neither knows.
    """
    [query] = answer["queries"]
    lines = [_of_face(line, lirical) for line in query["disorders"]]
    joined = {curie for line in lines for curie in (line["curie"] or "").split()}
    others = [disease for disease in lirical.log10_ratio_of if disease not in joined]
    share = query["none_of_these"] / (len(others) + 1)
    lines += [_of_lirical(disease, lirical, share) for disease in others]
    before = np.array([*(line["face_probability"] for line in lines), share])
    ratios = np.array([*(line["lirical_log10_likelihood_ratio"] for line in lines), 0.0])
    *after, rest = combined_probabilities(before, ratios, weight).tolist()
    for line, probability in zip(lines, after, strict=True):
        ratio = line["face_log10_likelihood_ratio"] + weight * line["lirical_log10_likelihood_ratio"]
        line |= {"log10_likelihood_ratio": ratio, "probability": probability}
    none = sum((one for line, one in zip(lines, after, strict=True) if line["known_to"] == ["lirical"]), rest)
    order = range(len(lines)) if weight == 0 else np.argsort([-one for one in after], kind="stable").tolist()
    return {
        "tool": TOOL,
        "patient_id": query["patient_id"],
        **{name: answer[name] for name in ("method", "gallery")},
        "lirical": {
            "version": lirical.version,
            "weight": weight,
            "diseases": len(lirical.log10_ratio_of),
            "face_terms_left_out": list(lirical.face_terms),
        },
        "none_of_these": round(none, DIGITS),
        "disorders": [as_plain_values({"rank": rank, **lines[place]}) for rank, place in enumerate(order, start=1)],
        "notice": answer.get("notice", NOTICE),
    }


def _of_face(line: Mapping[str, Any], lirical: Lirical) -> dict[str, Any]:
    """A disorder of the gallery. It may be several diseases; a phenotypic series does not stand for its members."""
    curie = line.get("curie") or line["omim"]
    ratios = [lirical.log10_ratio_of[each] for each in (curie or "").split() if each in lirical.log10_ratio_of]
    return {
        **{name: line[name] for name in ("disorder_id", "disorder_name")},
        "curie": curie,
        "known_to": BOTH if ratios else ["face"],
        "face_rank": line["rank"],
        "face_probability": line["probability"],
        "face_log10_likelihood_ratio": line["log10_likelihood_ratio"],
        "lirical_log10_likelihood_ratio": mean_log10_ratio(np.array(ratios)) if ratios else 0.0,
    }


def _of_lirical(disease: str, lirical: Lirical, share: float) -> dict[str, Any]:
    return {
        "disorder_id": None,
        "disorder_name": lirical.name_of.get(disease),
        "curie": disease,
        "known_to": ["lirical"],
        "face_rank": None,
        "face_probability": share,
        "face_log10_likelihood_ratio": 0.0,
        "lirical_log10_likelihood_ratio": lirical.log10_ratio_of[disease],
    }
