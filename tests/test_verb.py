"""Verbs of the command line, and the numbers that people give to them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from sluice.cli.main import GROUPS, VERBS
from sluice.verb import count, positive, whole


def test_every_verb_has_a_name_of_its_own_and_examples_of_itself() -> None:
    assert len(VERBS) == sum(map(len, GROUPS.values()))
    for verb in VERBS.values():
        assert f"sluice {verb.name}" in verb.examples


@pytest.mark.parametrize(
    ("read", "text", "wrong"),
    [
        (whole, "-1", "at least 0"),
        (whole, "1.5", "'1.5' is no whole number"),
        (count, "0", "at least 1"),
        (count, "many", "'many' is no whole number"),
        (positive, "0", "more than 0"),
        (positive, "inf", "more than 0"),
        (positive, "nan", "more than 0"),
        (positive, "long", "'long' is no number"),
    ],
)
def test_numbers_that_cannot_be(read: Callable[[str], float], text: str, wrong: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=wrong):
        read(text)


def test_numbers() -> None:
    assert (whole("0"), count("1"), positive("0.5")) == (0, 1, 0.5)
