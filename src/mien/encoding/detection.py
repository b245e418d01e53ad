"""Finds faces with five landmarks on a photo: runs RetinaFace and decodes its three outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import cv2
import numpy as np

from mien.core.arrays import Float32s, Floats
from mien.encoding.manifest import DetectorManifest
from mien.encoding.network import Network
from mien.encoding.photo import Pixels
from mien.errors import Box, WeightsError

OUTPUT_WIDTHS: tuple[int, ...] = (4, 2, 10)  # boxes, confidences of (no face, face), landmarks
OVERLAP = 0.4  # boxes that share more than this of their union show one face


@dataclass(frozen=True, eq=False)
class Face:
    """A face on a photo, in the photo's pixels."""

    box: Floats  # left, top, right, bottom
    landmarks: Floats  # (5, 2): eyes, nose, corners of the mouth; each x, y; the picture's left first
    confidence: float

    @property
    def whole_box(self) -> Box:
        """The box in whole pixels."""
        left, top, right, bottom = (round(float(side)) for side in self.box)
        return left, top, right, bottom

    @property
    def size(self) -> float:
        """The longer side of the box, in pixels."""
        return float(max(self.box[2:] - self.box[:2]))


@dataclass(frozen=True, eq=False)
class Detector:
    """A detector's network and its manifest."""

    network: Network
    manifest: DetectorManifest

    def faces(self, photo: Pixels, *, least_confidence: float) -> list[Face]:
        """The faces with at least this confidence, the highest first."""
        manifest, sides = self.manifest, photo.shape[:2]
        ratio = manifest.longer_side / max(sides)
        height, width = (max(int(side * ratio), 1) for side in sides)  # truncated, as in the official pipeline
        small = cv2.resize(photo, (width, height))
        boxes, confidences, landmarks = (output[0] for output in self.network.run(manifest.input.scaled(small[None])))
        anchors = anchors_of((height, width), manifest)
        if len(anchors) != len(confidences):
            what = f"the detector gives {len(confidences)} answers for the {len(anchors)} anchors of its manifest"
            raise WeightsError(f"{what}: strides or anchor_sizes are not its own")
        sure = np.flatnonzero(confidences[:, 1] >= least_confidence)
        sure = sure[np.argsort(-confidences[sure, 1], kind="stable")]
        anchors = anchors[sure]
        found = decoded_boxes(boxes[sure], anchors, manifest.variances)
        kept = separate_faces(found)
        points = decoded_landmarks(landmarks[sure[kept]], anchors[kept], manifest.variances)
        scale = max(sides) / max(height, width)
        return [
            Face(scale * found[place], scale * points[row], float(confidences[sure[place], 1]))
            for row, place in enumerate(kept)
        ]


@lru_cache(maxsize=64)  # photos come in a few shapes only
def anchors_of(size: tuple[int, int], manifest: DetectorManifest) -> Float32s:
    """Centre x, centre y and side of every anchor, fine to coarse, row by row (anchors, 3)."""
    scales = []
    for stride, sides_here in zip(manifest.strides, manifest.anchor_sizes, strict=True):
        rows, columns = (ceil(side / stride) for side in size)
        y, x, side = np.meshgrid(np.arange(rows), np.arange(columns), np.array(sides_here), indexing="ij")
        scales.append(np.stack([(x + 0.5) * stride, (y + 0.5) * stride, side], axis=-1).reshape(-1, 3))
    return np.concatenate(scales).astype(np.float32)


def decoded_boxes(offsets: Floats, anchors: Floats, variances: tuple[float, float]) -> Floats:
    """Boxes (left, top, right, bottom) from their offsets to the anchors."""
    centres = anchors[:, :2] + offsets[:, :2] * variances[0] * anchors[:, 2:]
    halves = anchors[:, 2:] * np.exp(offsets[:, 2:] * variances[1]) / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def decoded_landmarks(offsets: Floats, anchors: Floats, variances: tuple[float, float]) -> Floats:
    """Landmarks (faces, 5, 2) from their offsets to the anchors."""
    steps: Floats = offsets.reshape(-1, 5, 2) * variances[0] * anchors[:, None, 2:]
    return anchors[:, None, :2] + steps


def separate_faces(boxes: Floats) -> list[int]:
    """Places of the boxes that overlap no better one; the boxes come best first."""
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    left = np.arange(len(boxes))
    kept: list[int] = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        corners = np.minimum(boxes[left, 2:], boxes[best, 2:]) - np.maximum(boxes[left, :2], boxes[best, :2])
        shared = np.prod(np.maximum(corners, 0), axis=1)
        left = left[shared <= OVERLAP * (areas[left] + areas[best] - shared)]
    return kept
