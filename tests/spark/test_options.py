"""Options are heard or refused, and the reference page has each of them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.spark.options import NetworkOptions, SinkOptions, SourceOptions

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spark.md"


def test_texts_become_values() -> None:
    options = SourceOptions.of(
        {"Brokers": "sluice://a, sluice://b", "where": "n > 5", "streams": "b1", "start": '{"b1": 3}',
         "end": "2026-03-01T12:30+01:00", "max_rows_per_batch": "10", "fail_on_loss": "FALSE", "patience_seconds": "2.5"}
    )  # fmt: skip
    assert options.brokers == ("sluice://a", "sluice://b") and options.streams == ("b1",) and options.start == {"b1": 3}
    assert options.end == datetime(2026, 3, 1, 11, 30, tzinfo=UTC) and options.max_rows_per_batch == 10
    assert options.fail_on_loss is False and options.network.patience_seconds == 2.5
    assert SinkOptions.of({"brokers": "a", "checkpointLocation": "x"}).publisher is None, "that one is for Spark"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, r'no broker is named: say .option\("brokers"'),
        ({"brokers": "a", "max_rows_per_bach": "1"}, "no option of the source: is it max_rows_per_batch?"),
        ({"brokers": "a", "publisher": "p"}, "'publisher' is no option of the source: there are brokers, end,"),
        ({"brokers": "a", "where": "n >"}, "option where: 'n >' cannot be: something is missing after >"),
        ({"brokers": "a", "start": "now"}, "option start: 'now' cannot be: it is earliest, latest, offsets"),
        ({"brokers": "a", "start": '{"b1": 0}'}, "the offset of b1 is 0, and offsets count from 1"),
        ({"brokers": "a", "start": "{b1}"}, "it is no JSON"),
        ({"brokers": "a", "infer_rows": "-1"}, "it is a whole number, 1 or more"),
        ({"brokers": "a", "patience_seconds": "nan"}, "it is a number of seconds, more than 0"),
        ({"brokers": "a", "fail_on_loss": "no"}, "it is true or false"),
        ({"brokers": "a", "rest": "lose"}, "it is keep or drop"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        SourceOptions.of(options)


def test_a_publisher_has_a_name_that_brokers_take() -> None:
    with pytest.raises(ConfigurationError, match="without a slash"):
        SinkOptions.of({"brokers": "a", "publisher": "a/b"})


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(SourceOptions.of({"brokers": "a", "token": "secret"}))


@pytest.mark.parametrize("options", [SourceOptions, SinkOptions])
def test_the_reference_has_every_option(options: type[NetworkOptions]) -> None:
    page = PAGE.read_text()
    for each in dataclasses.fields(options):
        assert f"| `{each.name}` |" in page and each.metadata["about"] in page, each.name
