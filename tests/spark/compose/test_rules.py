"""Patterns in a file: what is right is read, and what is wrong is an error that says where and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice import ConfigurationError
from sluice.cli import main
from sluice.spark.compose import Absence, Change, Count, Rules, Sequence, read_rules

RULES = """\
time = "at"
late_by = "1500ms"

[[sequence]]
name = "refund"
key = "customer"
steps = ["kind = 'bought'", "kind = 'returned'"]
within = "14d"
emit = { paid = "1.price", "back at" = "2.shop.name" }

[[absence]]
name = "unpaid"
key = ["shop", "order"]
first = "kind = 'ordered'"
missing = "kind = 'paid'"
within = "10m"

[[count]]
name = "errors"
where = "level = 'error'"
at_least = 5
within = "1m"

[[change]]
name = "jump"
key = ["symbol"]
where = "market = 'NYSE' OR market = 'LSE'"
attribute = "last.price"
percent = 2.5
direction = "up"
within = "1m"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def test_a_file_says_what_python_says(file: Path) -> None:
    assert read_rules(file) == Rules(
        (
            Sequence(
                name="refund",
                key=("customer",),
                steps=("kind = 'bought'", "kind = 'returned'"),
                within="14d",
                emit={"paid": "1.price", "back at": "2.shop.name"},
            ),
            Absence(
                name="unpaid",
                key=("shop", "order"),
                first="kind = 'ordered'",
                missing="kind = 'paid'",
                within="10m",
            ),
            Count(name="errors", where="level = 'error'", at_least=5, within="1m"),
            Change(
                name="jump",
                key=("symbol",),
                where="market = 'NYSE' OR market = 'LSE'",
                attribute="last.price",
                percent=2.5,
                direction="up",
                within="1m",
            ),
        ),
        "at",
        "1500ms",
    )


def test_what_is_derived(file: Path) -> None:
    rules = read_rules(file)
    assert rules.late_by_milliseconds == 1_500
    assert rules.patterns[0].attributes == ("customer", "price", "shop.name")
    assert rules.patterns[3].wheres == ("(market = 'NYSE' OR market = 'LSE') AND last.price > 0",)
    assert rules.where.startswith("(kind = 'bought') OR (kind = 'returned') OR (kind = 'ordered')")


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("[[count]]", "[[counts]]", "rules.toml: nothing is called counts: did you mean count?"),
        ("late_by", "late", "nothing is called late: did you mean late_by?"),
        ("at_least", "atleast", "[[count]] 'errors': nothing is called atleast: did you mean at_least?"),
        ("[[count]]", "[count]", "write [[count]], with two brackets"),
        ("at_least = 5", 'at_least = "5"', "[[count]] 'errors': Expected int, got str - at at_least"),
        ("at_least = 5", "at_least = 1", "at_least is 1: give a whole number from 2 to 10,000"),
        ("at_least = 5\n", "", "[[count]] 'errors' has no at_least"),
        ('name = "errors"\n', "", "[[count]] has no name"),
        ('name = "errors"', 'name = "jump"', "two patterns are called 'jump'"),
        ('"1m"', '"1 year"', "within: '1 year' is no duration"),
        ('"1m"', '"0s"', "nothing happens in no time"),
        ('"1500ms"', '"soon"', "late_by: 'soon' is no duration"),
        ('"1500ms"', "5", "late_by: Expected str, got int"),
        ('time = "at"', 'time = ""', "time is empty"),
        ('"customer"', '""', "key is ('',): give the names of attributes"),
        ('"up"', '"upward"', "'upward'"),
        ('direction = "up"', 'direction = "down"', None),
        ("percent = 2.5", "percent = 0", "percent is 0.0: give a number above 0"),
        ('2.5\ndirection = "up"', '101\ndirection = "down"', "nothing falls by more than 100"),
        ("1.price", "3.price", "emit: paid is '3.price', but a result has the events 1 to 2"),
        ("1.price", "price", "write the number of an event and an attribute, as in 1.price"),
        ('"back at"', '"customer"', "emit gives the name 'customer'"),
        ('"back at"', '"ended"', "emit gives the name 'ended'"),
        (", \"kind = 'returned'\"", "", "a sequence has at least two steps"),
        ("level = 'error'", "level =", "pattern 'errors': the filter of step 1: something is missing after ="),
        ("level = 'error'", "level = 'error' AND level = 'info'", "which nothing can match"),
        (RULES, 'late_by = "1s"', "there is no pattern: write one of [[sequence]]"),
    ],
)
def test_what_is_wrong(file: Path, right: str, wrong: str, problem: str | None) -> None:
    assert right in RULES
    file.write_text(RULES.replace(right, wrong))
    if problem is None:
        read_rules(file)
        return
    with pytest.raises(ConfigurationError) as raised:
        read_rules(file)
    assert problem in str(raised.value)
    assert str(raised.value).startswith(str(file))


def test_python_is_told_the_same() -> None:
    with pytest.raises(ConfigurationError, match="direction is 'sideways'"):
        Change(name="c", attribute="a", percent=1, direction="sideways", within="1s")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="key is 'symbol': give the names"):
        Change(name="c", key="symbol", attribute="a", percent=1, within="1s")  # type: ignore[arg-type]


def test_the_command_checks_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compose", str(file), "--check"]) == 0
    printed = capsys.readouterr().out
    assert "absence 'unpaid'\n  key        shop\n  key        order\n" in printed
    assert "  emits      shop.name of event 2 as back at\n" in printed
    assert printed.endswith("by at, at most 1500ms late\n")
    file.write_text("[[count]]\n")
    assert main(["compose", str(file), "--check"]) == 2
    assert capsys.readouterr().err.startswith(f"sluice: {file}: [[count]] has no name")


def test_the_help_needs_no_spark() -> None:
    program = "import sys, sluice.spark.compose.command; sys.exit('pyspark' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
