"""Mean faces against plain loops, and how patients are put into blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mien.storage.composites import mean_face, whole_blocks

from oracle import composite


def test_a_mean_face_is_the_mean_over_patients_of_their_means(rng):
    crops = rng.integers(0, 256, (9, 2, 3, 3), dtype=np.uint8)
    patients = ["a", "b", "a", "c", "c", "c", "d", "a", "e"]
    expected = composite({p: [c.tolist() for c, q in zip(crops, patients, strict=True) if p == q] for p in "abcde"})
    found = mean_face(iter(crops), patients)
    for row, column, colour in np.ndindex(2, 3, 3):
        assert abs(Fraction(float(found[row, column, colour])) - expected[row][column][colour]) < Fraction(1, 10**9)


def test_blocks_are_whole_and_nobody_is_in_two(rng):
    for _ in range(100):
        size = int(rng.integers(3, 7))
        people = [f"p{number}" for number in range(40)]
        waiting = {f"d{number}": rng.choice(people, rng.integers(1, 25), replace=False).tolist() for number in range(4)}
        blocks = whole_blocks(waiting, size)
        placed = [patient_id for block in blocks for patient_id in block.patient_ids]
        assert len(placed) == len(set(placed))
        assert all(len(block.patient_ids) == size for block in blocks)
        assert all(set(block.patient_ids) <= set(waiting[block.disorder_id]) for block in blocks)
        for patients in waiting.values():  # as many as can be made
            assert len(set(patients) - set(placed)) < size


def test_blocks_do_not_follow_the_order_of_ids_and_are_the_same_again(rng):
    people = [f"{number:03}" for number in range(50)]
    blocks = whole_blocks({"d": people}, 5)
    assert blocks == whole_blocks({"d": rng.permutation(people).tolist()}, 5)
    neighbours = sum(int(b) - int(a) == 1 for block in blocks for a, b in zip(block[1], block[1][1:], strict=False))
    assert neighbours < 5
