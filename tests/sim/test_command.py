"""`sluice simulate` as people meet it: what it prints, what it refuses, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.cli import main
from sluice.sim import command
from sluice.sim.mutants import MUTANTS, Mutant
from sluice.sim.scenario import SCENARIOS
from sluice.sim.trace.trace import Trace
from tests.terminal import at_terminal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["simulate", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def test_a_summary(simulate: Run) -> None:
    status, out, err = simulate("--runs", 2)
    assert (status, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["runs"] == str(2 * len(SCENARIOS)) and lines["violations"] == "0"
    assert lines["events"].endswith("a second)") and "of the bound" in lines["recovery"]


def test_one_seed_prints_its_options_and_the_hash_of_its_trace(simulate: Run, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    status, out, _ = simulate("--scenario", "completeness", "--seed", 5, "--trace", file)
    assert status == 0
    assert out.startswith("options     routing=")
    assert out.splitlines()[-1] == f"trace       {Trace.load(file).hash()}"
    assert "runs        1\n" in out


def test_choices_are_taken(simulate: Run) -> None:
    arguments = ("--scenario", "routing", "--seed", 4, "--routing", "identity", "--advertisements")
    _, out, _ = simulate(*arguments, "--faults", "none")
    assert "routing=identity" in out and "advertisements=None" not in out and "faults=()" in out
    _, out, _ = simulate(*arguments, "--faults", "all")
    assert "faults=('broker-crash', 'link-loss', 'client-crash', 'offline')" in out


def test_a_violation_is_told_and_the_status_is_1(simulate: Run) -> None:
    with named("delivers-nothing").apply():
        status, out, _ = simulate("--scenario", "routing", "--runs", 50)
    assert status == 1
    assert "routing, seed 0: live does not hold" in out
    assert "never gets" in out
    assert out.rstrip().endswith("repeat it with: sluice simulate --scenario routing --seed 0")


def test_the_command_of_a_violation_repeats_it(simulate: Run) -> None:
    with named("uncovered-forgotten").apply():
        _, out, _ = simulate("--scenario", "routing", "--faults", "none")
        again = out.splitlines()[-1].removeprefix("repeat it with: sluice simulate ").split()
        status, repeated, _ = simulate(*again)
    assert status == 1
    assert repeated[repeated.index(" does not hold") :] == out[out.index(" does not hold") :]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scenario", "nothing"], "take one of routing"),
        (["--routing", "nothing"], "take one of flooding"),
        (["--scenario", "routing", "--faults", "tables"], "cannot go wrong here"),
        (["--trace", "x"], "--trace writes the trace of one run"),
        (["--scenario", "routing", "--seed", "1", "--trace", "no-such-folder/x"], "no-such-folder"),
    ],
)
def test_what_makes_no_sense_is_refused(simulate: Run, arguments: list[str], says: str) -> None:
    status, out, err = simulate(*arguments)
    assert status == 2 and says in err
    assert not out


@pytest.mark.parametrize("arguments", [["--runs", "-1"], ["--minutes", "0"], ["--seed", "x"], ["--nonsense"]])
def test_arguments_that_are_no_numbers_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *arguments])
    assert caught.value.code == 2


def test_time_ends_it(simulate: Run) -> None:
    status, out, _ = simulate("--scenario", "interest", "--minutes", 0.005)
    assert status == 0 and "violations  0" in out


def test_people_at_a_terminal_see_a_bar_and_may_end_it() -> None:
    shown = at_terminal("simulate", "--scenario", "routing", "--minutes", 10, interrupt_at=" events")
    assert shown.status == 130
    assert "runs" in shown.text and "Traceback" not in shown.text


def test_mutants_are_hunted(simulate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    hunted = [named("delivers-nothing"), named("twin-removed"), named("knows-nobody")]
    monkeypatch.setattr(command, "MUTANTS", hunted)
    status, out, _ = simulate("--scenario", "routing", "--mutants")
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines[1:3]] == ["delivers-nothing", "twin-removed"]
    assert lines[1][1:4] == ["after", "1", "seed"]
    assert out.splitlines()[-1] == "2 of 2 caught"


def test_a_mutant_that_is_missed_is_named_and_the_status_is_1(simulate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MUTANTS", [named("delivers-nothing")])
    monkeypatch.setattr(command, "hunt", lambda mutant, first: None)
    status, out, _ = simulate("--mutants")
    assert status == 1
    assert "NO" in out and "notifications match nobody" in out and "0 of 1 caught" in out
