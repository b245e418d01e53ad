"""Draws portraits: a detector finds their faces, and they are nobody's biometric data."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Colour = tuple[int, int, int]
Drawing = npt.NDArray[np.uint8]  # (height, width, 3), RGB

SKIN = np.array([224, 180, 150])


@dataclass(frozen=True)
class DrawnPerson:
    """Features that all portraits of a person share. Lengths are shares of half the height of a face."""

    skin: Colour
    hair: Colour
    face_width: float
    eye_distance: float
    eye_height: float
    nose_height: float
    mouth_height: float
    mouth_width: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> DrawnPerson:
        """A new random person."""
        return cls(
            skin=_colour(SKIN * rng.uniform(0.55, 1.05)),
            hair=_colour(rng.integers(20, 90, 3)),
            face_width=rng.uniform(0.78, 0.92),
            eye_distance=rng.uniform(0.33, 0.42),
            eye_height=rng.uniform(-0.25, -0.12),
            nose_height=rng.uniform(0.2, 0.3),
            mouth_height=rng.uniform(0.5, 0.62),
            mouth_width=rng.uniform(0.22, 0.36),
        )

    def photo(self, rng: np.random.Generator, size: int = 480) -> Drawing:
        """A new portrait, with random place, tilt, light and shirt."""
        picture = np.empty((size, size, 3), dtype=np.uint8)
        picture[:] = rng.integers(60, 200, 3)
        pen = _Pen(picture, size / 2 + rng.normal(0, size / 30, 2), size / 4.2 * rng.uniform(0.85, 1.15))
        self._draw(pen, shirt=_colour(rng.integers(30, 200, 3)))
        tilt = cv2.getRotationMatrix2D((size / 2, size / 2), rng.normal(0, 6), 1.0)
        picture = cv2.warpAffine(picture, tilt, (size, size), borderMode=cv2.BORDER_REPLICATE)
        picture = cv2.GaussianBlur(picture, (0, 0), size / 300)
        across, down = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
        angle = rng.uniform(0, 2 * np.pi)
        light = 1 + 0.25 * (np.cos(angle) * across + np.sin(angle) * down)
        noise = rng.normal(0, 4, picture.shape)
        drawing: Drawing = np.clip(picture * light[..., None] + noise, 0, 255).astype(np.uint8)
        return drawing

    def _draw(self, pen: _Pen, shirt: Colour) -> None:
        darker, shadow, dark = (_colour(np.array(self.skin) * share) for share in (0.82, 0.65, 0.25))
        pen.ellipse((0, -0.25), (1.12 * self.face_width, 1.2), self.hair)
        pen.ellipse((0, 1.5), (1.6, 0.7), shirt)
        pen.ellipse((0, 1.0), (0.4, 0.5), darker)
        pen.ellipse((0, 0), (self.face_width, 1.12), self.skin)
        for side in (-1, 1):
            eye = (side * self.eye_distance, self.eye_height)
            pen.ellipse(eye, (0.2, 0.11), darker)
            pen.ellipse(eye, (0.15, 0.07), (240, 240, 240))
            pen.ellipse(eye, (0.07, 0.07), dark)
            pen.ellipse((eye[0], eye[1] - 0.2), (0.22, 0.06), dark, degrees=(180, 360), width=0.05)
        pen.ellipse((0, self.nose_height), (0.13, 0.09), shadow, degrees=(0, 180), width=0.04)
        pen.line((0.06, -0.1), (0.1, self.nose_height - 0.02), darker, 0.05)
        pen.ellipse((0, self.mouth_height), (self.mouth_width, 0.09), (170, 80, 80))
        pen.line((-self.mouth_width, self.mouth_height), (self.mouth_width, self.mouth_height), (90, 40, 40), 0.03)


@dataclass(frozen=True, eq=False)
class _Pen:
    """Draws in units of half the height of the face, from its middle."""

    picture: Drawing
    middle: npt.NDArray[np.float64]
    unit: float

    def _at(self, place: tuple[float, float]) -> tuple[int, int]:
        x, y = self.middle + self.unit * np.array(place)
        return round(x), round(y)

    def ellipse(
        self,
        centre: tuple[float, float],
        radii: tuple[float, float],
        colour: Colour,
        *,
        degrees: tuple[int, int] = (0, 360),
        width: float | None = None,  # None: filled
    ) -> None:
        axes = round(self.unit * radii[0]), round(self.unit * radii[1])
        thickness = -1 if width is None else self._width(width)
        cv2.ellipse(self.picture, self._at(centre), axes, 0, *degrees, colour, thickness, cv2.LINE_AA)

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: Colour, width: float) -> None:
        cv2.line(self.picture, self._at(start), self._at(end), colour, self._width(width), cv2.LINE_AA)

    def _width(self, width: float) -> int:
        return max(1, round(self.unit * width))


def _colour(values: npt.ArrayLike) -> Colour:
    red, green, blue = (int(value) for value in np.clip(values, 0, 255))
    return red, green, blue
