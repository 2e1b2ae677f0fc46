"""Help fits the terminal, and what was meant is guessed."""

from __future__ import annotations

import pytest

from sluice.cli import main
from sluice.cli.main import VERBS
from sluice.usage import MAX_COLUMNS


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """With which status a command ends before it begins, and what it says."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code, "".join(capsys.readouterr())


@pytest.mark.parametrize("columns", [80, 300])
def test_prose_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in ([], *([*verb.split()] for verb in VERBS)):
        _, text = said(capsys, *words, "--help")
        prose, _, examples = text.partition("\nexamples:\n")
        assert max(map(len, prose.splitlines())) <= min(columns, MAX_COLUMNS), words
        assert not words or f"  sluice {' '.join(words)}" in examples


def test_a_command_without_a_verb_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys)
    assert status == 2 and "\nclients:\n  publish       publish the records" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("pubish quotes.jsonl", "sluice: error: there is no verb 'pubish'; did you mean publish?"),
        ("xyz", "sluice: error: there is no verb 'xyz'; --help shows what there is"),
        ("link ad b1", "invalid choice: 'ad'"),
        ("broker --listn=7470", "sluice broker: error: there is no --listn here; did you mean --listen?"),
        ("explain price > 3", "sluice explain: error: what is '>' for? `sluice explain --help` shows what it takes"),
    ],
)
def test_what_was_meant_is_guessed(capsys: pytest.CaptureFixture[str], words: str, answer: str) -> None:
    status, text = said(capsys, *words.split())
    assert status == 2 and answer in text
