"""The command line as people meet it: what it prints, what it says when something is wrong, how it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from sluice.cli import main
from tests.patience import PATIENCE_SECONDS
from tests.terminal import at_terminal

QUOTES: list[dict[str, Any]] = [
    {"symbol": "IBM", "price": 121.5, "volume": 10},
    {"symbol": "SAP", "price": 99.0, "volume": 20},
    {"symbol": "AMD", "price": 7.25, "volume": 30},
    {"symbol": "IBM", "price": 100.0, "volume": 40},
]
SUBSCRIPTIONS: list[tuple[int | str, str]] = [
    ("zoe", "price > 120"),
    (7, "symbol = 'IBM'"),
    (10, "symbol IN ('IBM', 'SAP') AND volume < 25"),
    ("ada", "volume BETWEEN 20 AND 40 AND NOT symbol = 'AMD'"),
]
ANSWERS = [(0, [7, 10, "zoe"]), (1, [10, "ada"]), (3, [7, "ada"])]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def subscriptions(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "subscriptions.jsonl", [{"id": id, "where": where} for id, where in SUBSCRIPTIONS])


@pytest.fixture
def quotes(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "quotes.jsonl", QUOTES)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run_main(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run_main


def answers(output: str) -> list[tuple[int, list[int | str]]]:
    lines = [json.loads(line) for line in output.splitlines()]
    assert all(set(line) == {"notification", "ids"} for line in lines)
    return [(line["notification"], line["ids"]) for line in lines]


Run = Callable[..., tuple[int, str, str]]


class TestExplain:
    def test_shows_boxes_and_what_is_residual(self, run: Run) -> None:
        status, out, err = run("explain", "symbol = 'IBM' AND (price > 120 OR price * volume > 1000000)")
        assert (status, err) == (0, "")
        assert out.startswith("canonical: ")
        assert "box 1 of 2\n" in out and "box 2 of 2\n" in out
        assert "price       price > 120" in out or "price   price > 120" in out
        assert "(residual)  " in out and "price * volume" in out

    def test_the_canonical_form_means_the_same(self, run: Run) -> None:
        text = "NOT (price BETWEEN 10 AND 20) OR symbol LIKE 'I%'"
        canonical = run("explain", text)[1].splitlines()[0].removeprefix("canonical: ")
        assert run("explain", canonical)[1].splitlines()[0].removeprefix("canonical: ") == canonical
        assert run("covers", text, canonical)[0] == run("covers", canonical, text)[0] == 0

    def test_everything_and_nothing(self, run: Run) -> None:
        assert "everything matches" in run("explain", "true")[1]
        out = run("explain", "symbol = 'IBM' AND price > 2 AND price < 1")[1]
        assert "nothing can match\n  price > 2 and price < 1 exclude each other\n" in out

    def test_an_error_shows_the_place(self, run: Run) -> None:
        status, out, err = run("explain", "price > no_such_function(3)")
        assert (status, out) == (2, "")
        assert err.startswith("sluice: ") and "^" in err

    def test_the_place_is_below_wide_characters(self, run: Run) -> None:
        shown, caret = run("explain", "名前 = '日本' && x")[2].splitlines()[-2:]
        assert shown.index("&&") + 4 == caret.index("^")


class TestCovers:
    def test_yes(self, run: Run) -> None:
        status, out, _ = run("covers", "price > 100", "price BETWEEN 110 AND 120 OR price = 200 AND symbol = 'IBM'")
        assert status == 0
        assert out.startswith("yes\n") and out.count("lies inside price > 100") == 2

    @pytest.mark.parametrize(
        ("a", "b", "why"),
        [
            ("price > 100", "price > 99", "price > 100 does not follow from price > 99"),
            ("price > 100", "symbol = 'IBM'", "B does not ask for price > 100"),
            ("price * volume > 9", "price > 1", "B does not ask for"),
            ("price > 2 AND price < 1", "price > 1", "nothing can match A"),
        ],
    )
    def test_no_and_why(self, run: Run, a: str, b: str, why: str) -> None:
        status, out, _ = run("covers", a, b)
        assert status == 1
        assert out.startswith("no\n") and why in out

    def test_nothing_is_covered_by_anything(self, run: Run) -> None:
        status, out, _ = run("covers", "price = 1", "price > 2 AND price < 1")
        assert (status, out) == (0, "yes\n  nothing can match B\n")

    def test_an_error_tells_which_of_the_two(self, run: Run) -> None:
        status, out, err = run("covers", "price > 1", "price >")
        assert (status, out) == (2, "")
        assert err.startswith("sluice: B: ")


class TestMatch:
    def test_tells_who_gets_what(self, run: Run, subscriptions: Path, quotes: Path) -> None:
        status, out, err = run("match", subscriptions, quotes)
        assert (status, err) == (0, "")
        assert answers(out) == ANSWERS

    def test_count_is_alone(self, run: Run, subscriptions: Path, quotes: Path) -> None:
        assert run("match", subscriptions, quotes, "--count") == (0, "7\n", "")

    def test_csv(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "s.csv").write_text("where,note,id\n\"symbol IN ('IBM', 'SAP')\",x,12\nprice > 120,y,007\n")
        (tmp_path / "q.csv").write_text("symbol,price\nIBM,121.5\nSAP,99\n,130\n")
        status, out, _ = run("match", tmp_path / "s.csv", tmp_path / "q.csv")
        assert status == 0
        assert answers(out) == [(0, [12, "007"]), (1, [12]), (2, ["007"])]

    def test_csv_columns_have_one_type_however_late_it_shows(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "s.csv").write_text("id,where\n1,price > 0.5\n")
        (tmp_path / "q.csv").write_text("price\n" + "0\n" * 600_000 + "0.75\n")
        assert answers(run("match", tmp_path / "s.csv", tmp_path / "q.csv")[1]) == [(600_000, [1])]

    def test_csv_an_empty_cell_is_null_a_quoted_one_is_empty(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "s.csv").write_text("id,where\n1,symbol IS NULL\n2,symbol = ''\n3,symbol = 'NA'\n")
        (tmp_path / "q.csv").write_text('symbol,n\n,1\n"",2\nNA,3\n')
        assert answers(run("match", tmp_path / "s.csv", tmp_path / "q.csv")[1]) == [(0, [1]), (1, [2]), (2, [3])]

    def test_parquet(self, run: Run, tmp_path: Path) -> None:
        ids, wheres = [str(id) for id, _ in SUBSCRIPTIONS], [where for _, where in SUBSCRIPTIONS]
        parquet.write_table(pa.table({"id": ids, "where": wheres}), tmp_path / "s.parquet")
        parquet.write_table(pa.Table.from_pylist(QUOTES), tmp_path / "q.parquet")
        status, out, _ = run("match", tmp_path / "s.parquet", tmp_path / "q.parquet")
        assert status == 0
        assert answers(out) == [(index, sorted(map(str, ids))) for index, ids in ANSWERS]

    @pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
    def test_formats_agree_over_many_batches(self, run: Run, tmp_path: Path, suffix: str) -> None:
        table = pa.table({"n": range(5_000), "name": [f"n{i % 10}" for i in range(5_000)]})
        path = tmp_path / f"n.{suffix}"
        if suffix == "jsonl":
            write_jsonl(path, table.to_pylist())
        elif suffix == "csv":
            path.write_text("n,name\n" + "".join(f"{row['n']},{row['name']}\n" for row in table.to_pylist()))
        else:
            parquet.write_table(table, path)
        wheres = {1: "n >= 4321", 2: "name = 'n3'", 3: "n * 2 = 4682"}
        s = write_jsonl(tmp_path / "s.jsonl", [{"id": id, "where": where} for id, where in wheres.items()])
        found = answers(run("match", s, path)[1])
        expected = {
            n: [id for id, yes in ((1, n >= 4321), (2, n % 10 == 3), (3, n == 2341)) if yes] for n in range(5_000)
        }
        assert dict(found) == {n: ids for n, ids in expected.items() if ids}
        assert [n for n, _ in found] == sorted(n for n, _ in found)

    def test_empty_lines_hold_nothing_but_count(self, run: Run, subscriptions: Path, tmp_path: Path) -> None:
        (tmp_path / "q.jsonl").write_text('\n{"symbol": "IBM"}\n  \n{"symbol": "IBM"}')
        assert answers(run("match", subscriptions, tmp_path / "q.jsonl")[1]) == [(1, [7]), (3, [7])]

    def test_no_notifications_and_no_subscriptions(self, run: Run, quotes: Path, tmp_path: Path) -> None:
        (empty := tmp_path / "empty.jsonl").write_text("")
        assert run("match", empty, quotes) == (0, "", "")
        assert run("match", quotes.with_name("empty.jsonl"), empty, "--count") == (0, "0\n", "")

    def test_integers_of_any_size_are_exact(self, run: Run, tmp_path: Path) -> None:
        s = write_jsonl(tmp_path / "s.jsonl", [{"id": 1, "where": f"n = {2**70 + 1}"}])
        q = write_jsonl(tmp_path / "q.jsonl", [{"n": 2**70}, {"n": 2**70 + 1}, {"n": float("nan")}])
        assert answers(run("match", s, q)[1]) == [(1, [1])]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ('{"a": 1', "not JSON"),
            ("[1]", "should be a JSON object"),
            ("[" * 100_000, "nested too deeply"),
            ('{"a": ' + "9" * 5_000 + "}", "digits"),
            (b'{"a": "\xff"}', "not UTF-8"),
        ],
    )
    def test_a_bad_notification(self, run: Run, subscriptions: Path, quotes: Path, line: Any, problem: str) -> None:
        with quotes.open("ab") as file:
            file.write(line if isinstance(line, bytes) else line.encode())
        status, out, err = run("match", subscriptions, quotes)
        assert status == 2
        assert f"{quotes}, line 5: " in err and problem in err
        assert answers(out) == ANSWERS[: len(out.splitlines())], "only whole answers to lines before it"
        assert run("match", subscriptions, quotes, "--count") == (2, "", err)

    @pytest.mark.parametrize(
        ("row", "problem"),
        [
            ({"id": 1}, "where should be a string, none is there"),
            ({"where": "a = 1"}, "id should be an integer or a string, none is there"),
            ({"id": 1.5, "where": "a = 1"}, "not 1.5"),
            ({"id": True, "where": "a = 1"}, "not true"),
            ({"id": "ada", "where": "a = 1"}, 'the id "ada" stands on line 4 already'),
            ({"id": 3, "where": "a = = 1"}, "^"),
        ],
    )
    def test_a_bad_subscription(self, run: Run, subscriptions: Path, quotes: Path, row: Any, problem: str) -> None:
        with subscriptions.open("a") as file:
            file.write(json.dumps(row) + "\n" + json.dumps({"id": 0, "where": "a = 1"}) + "\n")
        status, out, err = run("match", subscriptions, quotes)
        assert (status, out) == (2, "")
        assert f"{subscriptions}, line 5: " in err and problem in err

    @pytest.mark.parametrize(
        ("text", "place", "problem"),
        [
            ("id,text\n1,a = 1\n", "line 1", "the header should name the columns id and where"),
            ("id,where\n1,a = 1\n2,a = 1,b\n", "line 3", "more cells"),
            ('id,where\n1,"a =\n 1"\n2\n', "line 4", "where should be a string"),
            ('id,where\n1,"a = 1\n', "line 2", "not CSV"),
            ("id,where\n1,a = '\xff'\n", "line 2", "not UTF-8"),
        ],
    )
    def test_bad_csv_subscriptions(
        self, run: Run, quotes: Path, tmp_path: Path, text: str, place: str, problem: str
    ) -> None:
        (path := tmp_path / "s.csv").write_bytes(text.encode("latin-1"))
        status, out, err = run("match", path, quotes)
        assert (status, out) == (2, "")
        assert f"{path}, {place}: " in err and problem in err

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('a,b\n1,"x\ny"\n\n2\n', ", line 5: not CSV: Expected 2 columns, got 1"),
            ("", ": Empty CSV file"),
            ("a,b,a\n1,2,3\n", ", line 1: the header names the column a twice"),
            ("a\n\xff\n", ": column a is not UTF-8"),
        ],
    )
    def test_bad_csv_notifications(
        self, run: Run, subscriptions: Path, tmp_path: Path, text: str, problem: str
    ) -> None:
        (path := tmp_path / "q.csv").write_bytes(text.encode("latin-1"))
        status, out, err = run("match", subscriptions, path)
        assert (status, out) == (2, "")
        assert f"{path}{problem}" in err

    def test_a_row_that_cannot_be_read(self, run: Run, tmp_path: Path) -> None:
        s = write_jsonl(tmp_path / "s.jsonl", [{"id": 1, "where": "v IS NOT NULL"}])
        far = pa.array([0, 2**60], pa.timestamp("us"))
        for column, said in (
            (far, "column 'v' of type timestamp"),
            (pa.array([None, 1], pa.time64("us")), "'v' is of type time"),
        ):
            parquet.write_table(pa.table({"v": column}), path := tmp_path / "q.parquet")
            status, out, err = run("match", s, path)
            assert (status, out) == (2, "")
            assert f"q.parquet, row 2: {said}" in err

    def test_bad_parquet(self, run: Run, subscriptions: Path, quotes: Path, tmp_path: Path) -> None:
        (path := tmp_path / "x.parquet").write_bytes(b"PAR1 but no more")
        assert f"{path}: not Parquet: " in run("match", subscriptions, path)[2]
        assert f"{path}: not Parquet: " in run("match", path, quotes)[2]
        parquet.write_table(pa.table({"id": [1, 2], "where": ["a = 1", None]}), path)
        assert f"{path}, row 2: where should be a string" in run("match", path, quotes)[2]
        parquet.write_table(pa.table({"id": [1]}), path)
        assert f"{path}: no column where" in run("match", path, quotes)[2]

    def test_files_that_are_not_there(self, run: Run, subscriptions: Path, tmp_path: Path) -> None:
        status, out, err = run("match", subscriptions, tmp_path / "none.jsonl")
        assert (status, out) == (2, "")
        assert "none.jsonl: there is no such file" in err
        (tmp_path / "quotes.txt").write_text("{}")
        assert "what format is it?" in run("match", subscriptions, tmp_path / "quotes.txt")[2]
        (tmp_path / "folder.jsonl").mkdir()
        assert "folder.jsonl: Is a directory" in run("match", subscriptions, tmp_path / "folder.jsonl")[2]
        assert "only one of" in run("match", "-", "-")[2]

    def test_format_tells_what_the_name_does_not(self, run: Run, subscriptions: Path, tmp_path: Path) -> None:
        (tmp_path / "quotes.txt").write_text("symbol,price\nIBM,1\n")
        assert answers(run("match", subscriptions, tmp_path / "quotes.txt", "--format", "csv")[1]) == [(0, [7])]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sluice", *map(str, arguments)]


def piped(data: bytes, *arguments: object) -> tuple[int, str, str]:
    done = subprocess.run(command(*arguments), input=data, capture_output=True, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class TestStandardInput:
    def test_json_lines(self, subscriptions: Path, quotes: Path) -> None:
        status, out, err = piped(quotes.read_bytes(), "match", subscriptions, "-")
        assert (status, err) == (0, "")
        assert answers(out) == ANSWERS

    def test_subscriptions(self, subscriptions: Path, quotes: Path) -> None:
        assert answers(piped(subscriptions.read_bytes(), "match", "-", quotes)[1]) == ANSWERS

    def test_csv_and_parquet(self, subscriptions: Path) -> None:
        assert answers(piped(b"symbol\nIBM\n", "match", subscriptions, "-", "--format", "csv")[1]) == [(0, [7])]
        parquet.write_table(pa.Table.from_pylist(QUOTES), held := io.BytesIO())
        assert answers(piped(held.getvalue(), "match", subscriptions, "-", "--format=parquet")[1]) == ANSWERS

    def test_a_bad_line(self, subscriptions: Path) -> None:
        status, out, err = piped(b'{"symbol": "IBM"}\nnothing\n', "match", subscriptions, "-")
        assert (status, answers(out)) == (2, [(0, [7])])
        assert err.startswith("sluice: standard input, line 2: not JSON")


@pytest.fixture
def live(subscriptions: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A `sluice match` that reads from a pipe that stays open."""
    process = subprocess.Popen(
        command("match", subscriptions, "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        yield process
        process.kill()


class TestLivePipe:
    def answer(self, live: subprocess.Popen[bytes], line: bytes) -> Any:
        assert live.stdin and live.stdout
        live.stdin.write(line)
        live.stdin.flush()
        return json.loads(live.stdout.readline())

    def test_lines_are_answered_as_they_arrive(self, live: subprocess.Popen[bytes]) -> None:
        assert self.answer(live, b'{"symbol": "IBM"}\n') == {"notification": 0, "ids": [7]}
        assert self.answer(live, b'{"price": 1}\n{"price": 121}\n') == {"notification": 2, "ids": ["zoe"]}

    def test_control_c(self, live: subprocess.Popen[bytes]) -> None:
        self.answer(live, b'{"symbol": "IBM"}\n')
        live.send_signal(signal.SIGINT)
        assert live.wait(timeout=PATIENCE_SECONDS) == 130
        assert live.stderr and live.stderr.read() == b""

    def test_a_reader_that_leaves(self, live: subprocess.Popen[bytes]) -> None:
        self.answer(live, b'{"symbol": "IBM"}\n')
        assert live.stdin and live.stdout and live.stderr
        live.stdout.close()
        live.stdin.write(b'{"symbol": "IBM"}\n')
        live.stdin.close()
        assert live.wait(timeout=PATIENCE_SECONDS) == 141
        assert live.stderr.read() == b""


class TestTerminal:
    def test_explain_is_drawn(self) -> None:
        shown = at_terminal("explain", "symbol = 'IBM' AND price * volume > 10")
        assert shown.status == 0
        assert all(part in shown.text for part in ("╭", "box 1 of 1", "(residual)"))

    def test_match_shows_progress(self, subscriptions: Path, quotes: Path) -> None:
        shown = at_terminal("match", subscriptions, quotes)
        assert shown.status == 0
        assert "matching" in shown.text and '{"notification": 0, "ids": [7, 10, "zoe"]}' in shown.text


class TestHelp:
    @pytest.mark.parametrize("verb", ["explain", "covers", "match", "demo"])
    def test_every_verb_has_examples(self, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main([verb, "--help"])
        assert ended.value.code == 0
        assert f"  sluice {verb} " in capsys.readouterr().out.partition("examples:")[2] + " "

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("sluice 0.")

    @pytest.mark.parametrize(
        "arguments", [[], ["no-such-verb"], ["match", "one"], ["demo", "--seconds", "0"], ["demo", "--seed", "-1"]]
    )
    def test_misuse_is_status_2(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "usage: sluice" in capsys.readouterr().err

    def test_help_loads_nothing_heavy(self) -> None:
        heavy = {"numpy", "numba", "pyarrow", "sqlglot", "rich", "pyspark"}
        script = "import sys\ntry:\n import sluice.cli; sluice.cli.main(['--help'])\nfinally:\n print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert "usage: sluice" in done.stdout
        assert not heavy & set(done.stdout.splitlines()[-1].split())
