"""Settings of a broker: what they may be, where they come from, and what is said about those that cannot be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.broker.config import ServerConfig
from sluice.broker.settings import SETTINGS, load, parse_duration, parse_size
from sluice.errors import ConfigurationError, SluiceError
from sluice.files import InputError, write_statistics
from sluice.model.statistics import Statistics
from sluice.protocol.route.policy import Ratio, Traffic

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def test_the_later_source_wins(file: Path) -> None:
    file.write_text('name = "from-file"\nrouting = "simple"\nlog_level = "debug"\nmax_connections = 7\n')
    loaded = load(
        file,
        {"SLUICE_ROUTING": "merging", "SLUICE_LOG_LEVEL": "error", "PATH": "/", "SLUICE_ADDRESS": "a:1"},
        {"log_level": "info"},
    )
    assert (loaded.config.name, loaded.config.routing, loaded.config.log_level) == ("from-file", "merging", "info")
    assert loaded.config.max_connections == 7
    assert loaded.sources["name"] == str(file)
    assert loaded.sources["routing"] == "SLUICE_ROUTING"
    assert loaded.sources["log_level"] == "--log-level"
    assert loaded.sources["listen"] == "default"


def test_units_are_understood_everywhere(file: Path) -> None:
    file.write_text('name = "b1"\ndata = "log"\nretain_seconds = "7d"\nretain_bytes = 1000\nheartbeat_seconds = 2\n')
    config = load(file, {"SLUICE_MEMORY_BYTES": "1GiB", "SLUICE_FSYNC": "false"}, {"patience_seconds": "500ms"}).config
    assert (config.retain_seconds, config.retain_bytes, config.heartbeat_seconds) == (604_800, 1_000, 2)
    assert (config.memory_bytes, config.fsync, config.patience_seconds) == (1 << 30, False, 0.5)
    assert config.data == Path("log")


def test_lists(file: Path) -> None:
    file.write_text('name = "b1"\nlinks = ["a:1", "b:2"]\n')
    assert load(file, {}, {}).config.links == ("a:1", "b:2")
    assert load(file, {"SLUICE_LINKS": "c:3, d:4"}, {}).config.links == ("c:3", "d:4")
    assert load(file, {}, {"links": ["e:5"]}).config.links == ("e:5",)
    assert load(file, {"SLUICE_LINKS": "none"}, {}).config.links == ()


@pytest.mark.parametrize(
    ("toml", "environment", "said"),
    [
        ("lisen = 1", {}, r"broker\.toml: nothing is called lisen: did you mean listen\?"),
        ("zzz = 1", {}, r"broker\.toml: nothing is called zzz: there are advertisements, cache"),
        (
            "",
            {"SLUICE_LEASE_SECOND": "1"},
            "environment: nothing is called SLUICE_LEASE_SECOND: did you mean SLUICE_LEASE_SECONDS",
        ),
        ("max_connections = '5 or so'", {}, r"max_connections \(from .*broker\.toml\): '5 or so' is no whole number"),
        (
            "",
            {"SLUICE_CACHE_SECONDS": "5 parsecs"},
            r"cache_seconds \(from SLUICE_CACHE_SECONDS\): '5 parsecs' is no dur",
        ),
        ("memory_bytes = '1 mib'", {}, "'1 mib' is no size: write 100kB, 16MiB or 4GiB"),
        ("memory_bytes = 1.5", {}, "1.5 is no size"),
        ("cache_seconds = inf", {}, "inf is no duration"),
        ("merge_ratio = 'inf'", {}, "'inf' is no number"),
        ("fsync = 1", {}, "1 is no true or false"),
        ("", {"SLUICE_FSYNC": "yes"}, "'yes' is neither true nor false"),
        ("links = 3", {}, "3 is no list of texts"),
        ("links = [3]", {}, "3 is no text"),
        ("", {"SLUICE_DATA": ""}, r"data \(from SLUICE_DATA\): it is empty"),
        ("listen", {}, r"broker\.toml is no TOML"),
    ],
)
def test_what_cannot_be_read(file: Path, toml: str, environment: dict[str, str], said: str) -> None:
    file.write_text(toml)
    with pytest.raises(ConfigurationError, match=said):
        load(file, environment, {"name": "b1"})


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(file, {}, {"name": "b1"})


def test_a_broker_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="a broker needs a name: say --name b1, set SLUICE_NAME"):
        load(None, {}, {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "no name of a broker"),
        ({"name": "../b1"}, "no name of a broker"),
        ({"name": ".hidden"}, "no dot in front"),
        ({"name": "b" * 201}, "has 201 characters"),
        ({"listen": "http://here"}, "no address"),
        ({"links": ("a:99999",)}, "no address"),
        ({"links": ("a:0",)}, "port 0, which nobody can dial"),
        ({"listen": "a:5", "links": ("sluice://a:5",)}, "where b1 itself listens"),
        ({"merge_ratio": 0.5}, "merge_ratio is 0.5: it is at least 1"),
        ({"watched_heartbeats": 2}, "watched_heartbeats is 2: 3 silent ones cannot be among them"),
        ({"cache_seconds": 0}, "cache_seconds is 0: it is more than 0"),
        ({"cache_seconds": float("nan")}, "more than 0"),
        ({"cache_notifications": -1}, "not below 0"),
        ({"lease_seconds": 60}, "lease_seconds and renew_seconds go together"),
        ({"renew_seconds": 60}, "lease_seconds and renew_seconds go together"),
        ({"retain_bytes": 5}, "give data a directory"),
        ({"data": Path("log"), "retain_bytes": 0}, "retain_bytes is 0: it is more than 0"),
        ({"outbox_bytes": 300 << 20}, "raise memory_bytes or lower outbox_bytes"),
        ({"max_connections": 0}, "at least 1"),
        ({"log_level": "loud"}, "take one of debug, info, warning, error"),
        ({"log_format": "xml"}, "take one of text, json"),
        ({"order_algorithm": "guessing"}, "take one of floors, rooted"),
        ({"order_root": "b3"}, "only rooted order has a root: set order_algorithm to rooted"),
        ({"order_algorithm": "rooted", "node": "n", "order": "total"}, "one of several brokers of the node n"),
    ],
)
def test_what_cannot_be(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        replace(ServerConfig(name="b1"), **changes)  # type: ignore[arg-type]


def test_what_the_core_is_told() -> None:
    plain = ServerConfig(name="b1").broker_config()
    assert (plain.routing, plain.advertisements, plain.cache, plain.lease) == ("covering", None, None, None)
    assert not plain.durable
    config = ServerConfig(
        name="b1",
        routing="imperfect",
        advertisements="simple",
        merge_ratio=2.0,
        cache_notifications=5,
        cache_seconds=3,
        lease_seconds=60,
        renew_seconds=20,
        data=Path("log"),
        order_algorithm="rooted",
        order_root="b3",
    ).broker_config()
    assert (config.routing, config.advertisements, config.options.policy) == ("imperfect", "simple", Ratio(2.0))
    assert config.cache is not None and (config.cache.notifications, config.cache.seconds) == (5, 3)
    assert config.lease is not None and (config.lease.lease_seconds, config.lease.renew_seconds) == (60, 20)
    assert config.durable
    assert (config.order_algorithm, config.order_root) == ("rooted", "b3")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"routing": "guessing"}, "no routing algorithm is called 'guessing'"),
        ({"advertisements": "guessing"}, "no routing algorithm is called 'guessing'"),
        ({"lease_seconds": 20, "renew_seconds": 15}, "a lease of 20 s is too short"),
        ({"imports": ("no_such_module",)}, "imports has no_such_module, which cannot be imported"),
    ],
)
def test_what_the_core_refuses(changes: dict[str, object], said: str) -> None:
    config = replace(ServerConfig(name="b1"), **changes)  # type: ignore[arg-type]
    with pytest.raises(SluiceError, match=said):
        config.broker_config()


def test_modules_are_imported_before_names_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_routing_of_a_test.py").write_text(
        "from sluice.protocol.route.reduce import ALGORITHMS\nALGORITHMS['own'] = ALGORITHMS['simple']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from sluice.protocol.route.reduce import ALGORITHMS

    try:
        config = ServerConfig(name="b1", imports=("own_routing_of_a_test",), routing="own").broker_config()
        assert config.routing == "own"
    finally:
        del ALGORITHMS["own"]


@given(seconds=st.floats(0, 1e9), size=st.integers(0, 1 << 50))
def test_what_is_shown_is_understood(seconds: float, size: int) -> None:
    duration, bytes_ = SETTINGS["retain_seconds"], SETTINGS["retain_bytes"]
    assert duration.read(duration.show(seconds)) == seconds
    assert bytes_.read(bytes_.show(size)) == size


@pytest.mark.parametrize("name", SETTINGS)
def test_every_default_is_shown_and_understood(name: str) -> None:
    setting = SETTINGS[name]
    if name != "name":
        assert setting.read(setting.show(setting.default)) == setting.default


@pytest.mark.parametrize("text", ["", "s", "-5s", "5 S", "1h30m", "5,5s", "٣s"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no duration: write 500ms"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "MiB", "-1", "5mb", "1e3"])
def test_no_size(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no size"):
        parse_size(text)


def test_statistics_are_read_for_imperfect_merging(tmp_path: Path) -> None:
    file = tmp_path / "traffic.json"
    statistics = Statistics.of([{"price": 3}, {"price": 4}])
    write_statistics(file, statistics)
    assert [path.name for path in tmp_path.iterdir()] == ["traffic.json"]
    config = load(None, {"SLUICE_STATISTICS": str(file)}, {"name": "b1", "routing": "imperfect"}).config
    assert config.broker_config().options.policy == Traffic(statistics)
    assert replace(config, merge_budget=0.5).broker_config().options.policy == Traffic(statistics, 0.5)
    assert replace(config, statistics=None).broker_config().options.policy == Ratio(1.5)
    replace(config, routing="covering", advertisements="imperfect").broker_config()
    with pytest.raises(ConfigurationError, match="covering routing makes no imperfect mergers: set routing"):
        replace(config, routing="covering").broker_config()


def test_statistics_that_cannot_be_read_are_an_error_with_their_file(tmp_path: Path) -> None:
    config = ServerConfig(name="b1", routing="imperfect", statistics=tmp_path / "traffic.json")
    with pytest.raises(InputError, match=r"traffic\.json cannot be read: No such file"):
        config.broker_config()
    for damage, says in ((b"\xff", "no file of statistics"), (b"{}", "no file of statistics"), (b"{", "no JSON")):
        (tmp_path / "traffic.json").write_bytes(damage)
        with pytest.raises(InputError, match=rf"traffic\.json: .*{says}"):
            config.broker_config()
    with pytest.raises(InputError, match="cannot be written"):
        write_statistics(tmp_path / "nowhere" / "traffic.json", Statistics.of([]))


def test_the_reference_lists_every_setting() -> None:
    rows = [line for line in REFERENCE.read_text().splitlines() if re.match(r"\| `\w+` \| `SLUICE_", line)]
    assert rows == [
        f"| `{one.name}` | `{one.variable}` | `{one.flag}` | {one.kind}{'s' if one.is_list else ''} "
        f"| {'' if one.name == 'name' else f'`{one.show(one.default)}`'} | {one.about} |"
        for one in SETTINGS.values()
    ]
