"""`hakmem stats`: text, JSON, OpenMetrics, files and the server."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus
from sample import EXPECTED, MAPS, sample
from synthetic_area import COUNTERS, shown

from hakmem.cli import main
from hakmem.errors import HakmemError
from hakmem.insight.look import Targets
from hakmem.insight.metric_table import CLASS_METRICS, COUNTER, THREAD_METRICS, metric_table
from hakmem.insight.processes import command_line
from hakmem.insight.serve import address_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "a profile"
    path.write_bytes(sample().data + MAPS.encode())
    return str(path)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[int]:
    with shown(sample(), tmp_path) as pid:
        yield pid


def samples(text: str) -> Samples:
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in openmetrics(text)
        for s in family.samples
    }


def without_process(found: Samples) -> dict[str, float]:
    """Those of processes as wholes, by name alone."""
    return {
        name: v for (name, labels), v in found.items() if dict(labels).keys() <= {"pid", "comm"}
    }


def test_text(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", profile]) == 0
    out = capsys.readouterr().out
    assert "a-server (77) on hakmem 9.9.9, 60 s" in out
    assert re.search(r"^live +8\.87 MiB +all blocks the program holds$", out, re.MULTILINE)
    assert re.search(r"^refill +12 +magazine refills$", out, re.MULTILINE)
    assert re.search(r"^retain +2M +environment", out, re.MULTILINE)
    assert "\x1b" not in out
    for name in metric_table(tuple(COUNTERS)):
        if not name.startswith("resident"):
            assert re.search(rf"^{name.removesuffix('_bytes')} ", out, re.MULTILINE), name


def test_json_has_what_the_tables_amount_to(
    process: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(process), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pid"] == process
    assert EXPECTED.items() <= found["process"].items()
    assert found["process"]["resident_bytes"] > 0
    assert [c["size"] for c in found["classes"]] == [64, 73728]
    assert found["classes"][0]["magazine_bytes"] == 9600
    assert [t["state"] for t in found["threads"]] == ["running", "ended", "lost"]
    assert found["settings"]["retain"] == {"value": 2097152, "shown": "2M", "from": "environment"}


def test_several_targets_are_a_list(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", profile, profile, "--json"]) == 0
    assert [found["pid"] for found in json.loads(capsys.readouterr().out)] == [77, 77]


def test_openmetrics_by_the_official_parser(
    process: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(process), "--openmetrics"]) == 0
    text = capsys.readouterr().out
    families = {family.name: family for family in openmetrics(text)}
    found = samples(text)
    plain = without_process(found)
    table = metric_table(tuple(COUNTERS))
    for name, metric in table.items():
        family = families[f"hakmem_{name}"]
        assert (family.type, family.documentation) == (metric.kind, metric.text)
        assert family.unit == ("bytes" if name.endswith("_bytes") else "")
    for name, value in EXPECTED.items():
        suffix = "_total" if table[name].kind == COUNTER else ""
        assert plain[f"hakmem_{name}{suffix}"] == value, name
    assert set(families) == {
        *("hakmem", "hakmem_up", *(f"hakmem_{name}" for name in table)),
        *(f"hakmem_{metric.name}" for metric in (*CLASS_METRICS, *THREAD_METRICS)),
    }
    (version,) = (dict(labels)["version"] for name, labels in found if name == "hakmem_info")
    assert version == "9.9.9"
    by_class = {
        dict(k)["class"]: v for (n, k), v in found.items() if n == "hakmem_class_live_bytes"
    }
    assert by_class == {"64": 860 * 64, "73728": 2 * 73728}
    refills = {
        dict(k)["thread"]: v for (n, k), v in found.items() if n == "hakmem_thread_refill_total"
    }
    assert refills == {"11": 7, "12": 5, "13": 0}


def test_figures_that_could_not_be_told_apart(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes(Path(profile).read_bytes())
    for other in (profile, str(saved)):
        assert main(["stats", profile, other, "--openmetrics"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "process 77 (a-server), whose metrics could not be told apart" in said.err


@pytest.mark.parametrize(
    ("name", "shown_name"),
    [
        (b"s\xff", "s\N{REPLACEMENT CHARACTER}"),
        (rb"we\012ird", r"we\nird"),
        (b"r\x1b[31m", r"r\x1b[31m"),
    ],
)
def test_any_name_of_a_saved_program(
    profile: str, capsys: pytest.CaptureFixture[str], name: bytes, shown_name: str
) -> None:
    path = Path(profile)
    head, _, _ = path.read_bytes().partition(MAPS.encode())
    line = b"560000000000-560000100000 r-xp 00000000 fe:00 12    /opt/" + name + b"\n"
    path.write_bytes(head + line)
    assert main(["stats", profile]) == 0
    assert capsys.readouterr().out.startswith(f"{shown_name} (77) on hakmem")
    metrics = path.with_name("metrics.prom")
    assert main(["stats", profile, "--openmetrics"]) == 0
    assert main(["stats", profile, "--output", str(metrics)]) == 0
    for found in (openmetrics(capsys.readouterr().out), prometheus(metrics.read_text())):
        names = {s.labels["comm"] for f in found for s in f.samples if "comm" in s.labels}
        assert names == {shown_name}


def test_files_are_replaced_whole(process: int, tmp_path: Path) -> None:
    folder = tmp_path / "collector"
    folder.mkdir()
    first, second = folder / "hakmem.prom", folder / "hakmem.txt"
    first.write_text("old")
    assert main(["stats", str(process), "--output", str(first)]) == 0
    types = {family.name: family.type for family in prometheus(first.read_text())}
    # As the older format wants it: the counter's type is found under its full name.
    assert "# TYPE hakmem_refill_total counter" in first.read_text()
    assert types["hakmem_live_bytes"] == "gauge"
    assert main(["stats", str(process), "--openmetrics", "--output", str(second)]) == 0
    assert without_process(samples(second.read_text()))["hakmem_up"] == 1
    assert sorted(path.name for path in folder.iterdir()) == ["hakmem.prom", "hakmem.txt"]


def test_a_file_for_the_collector_is_in_the_format_that_it_reads(
    process: int, tmp_path: Path
) -> None:
    file = tmp_path / "hakmem.prom"
    assert main(["stats", str(process), "--openmetrics", "--output", str(file)]) == 0
    assert "# TYPE hakmem_refill_total counter" in file.read_text()
    assert "# EOF" not in file.read_text()


def test_a_file_that_cannot_be_written(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "nowhere" / "x.prom"
    assert main(["stats", profile, "--output", str(target)]) == 1
    assert f"cannot write '{target}'" in capsys.readouterr().err


def test_names_that_are_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "n" * 5000]) == 1
    assert (
        capsys.readouterr().err == f"hakmem: '{'n' * 57}...' cannot be read: File name too long\n"
    )


@pytest.mark.parametrize("command", [["stats", "1"], ["top", "--once"]])
@pytest.mark.parametrize("interval", ["nan", "inf", "1e300", "0", "-1", "often"])
def test_intervals_that_are_none(
    command: list[str], interval: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, f"--interval={interval}"]) == 2
    assert f"'{interval}' is no number from 0." in capsys.readouterr().err


def test_interval_goes_on_until_the_process_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    holder = shown(sample(), tmp_path)
    pid = holder.__enter__()

    def rest(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            holder.__exit__(None, None, None)

    monkeypatch.setattr("hakmem.commands.stats.time.sleep", rest)
    assert main(["stats", str(pid), "--openmetrics", "--interval", "0.5"]) == 0
    captured = capsys.readouterr()
    assert looks == [0.5, 0.5]
    assert captured.out.count("# EOF") == 3
    assert captured.out.count(f'hakmem_up{{pid="{pid}"}} 1.0') == 2
    assert f'hakmem_up{{pid="{pid}"}} 0.0' in captured.out.split("# EOF")[2]
    assert "ended" in captured.err


def test_the_list(process: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 0
    assert re.search(
        rf"^ *{process} +8\.87 MiB +\S+ [KM]iB +\S*python", capsys.readouterr().out, re.M
    )
    assert main(["stats", "--json"]) == 0
    (row,) = (r for r in json.loads(capsys.readouterr().out) if r["pid"] == process)
    assert row["live_bytes"] == EXPECTED["live_bytes"]


def test_what_has_ended_meanwhile_is_not_listed(
    process: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    found = [ended.pid, os.getpid(), process]
    monkeypatch.setattr("hakmem.insight.look.own_processes", lambda: iter(found))
    assert main(["stats"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["pid", str(process)]
    assert said.err == ""
    assert main(["stats", "--all", "--json"]) == 0
    assert [one["pid"] for one in json.loads(capsys.readouterr().out)] == [process]
    assert Targets((), every=True).look().failed == {}


def test_of_several_those_that_are_there_are_shown(
    process: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    assert main(["stats", "--json", str(ended.pid), str(process), "missing.heap"]) == 1
    said = capsys.readouterr()
    assert [one["pid"] for one in json.loads(said.out)] == [process]
    assert f"there is no process {ended.pid}" in said.err
    assert "missing.heap" in said.err
    assert main(["stats", "--openmetrics", str(ended.pid), str(process)]) == 1
    assert f'hakmem_up{{pid="{ended.pid}"}} 0.0' in capsys.readouterr().out
    assert main(["stats", str(ended.pid), "missing.heap"]) == 1
    assert capsys.readouterr().out == ""


def test_what_was_never_there_shows_in_the_status_of_repeated_looks(
    process: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Then none of them is there.
    monkeypatch.setattr(
        "hakmem.commands.stats.time.sleep",
        lambda _: monkeypatch.setattr("hakmem.insight.look.Targets.current", lambda _: ()),
    )
    targets = [str(process), "missing.heap"]
    assert main(["stats", "--openmetrics", "--interval", "1", *targets]) == 1
    assert "ended" in capsys.readouterr().err


def test_thread_of_a_process_without_hakmem(capsys: pytest.CaptureFixture[str]) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert main(["stats", str(thread.native_id)]) == 1
    done.set()
    thread.join()
    said = f"{thread.native_id} is a thread of process {os.getpid()}: name that"
    assert said in capsys.readouterr().err


def test_a_process_without_an_area_is_listed_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown(sample(), tmp_path, pid="4000000") as pid:
        assert main(["stats"]) == 0
    captured = capsys.readouterr()
    assert re.search(rf"^ *{pid} +- ", captured.out, re.MULTILINE)
    assert f"{pid} was forked from process 4000000" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1", "--all"], "not both"),
        (["1", "--json", "--openmetrics"], "not both"),
        (["1", "--json", "--output", "x.prom"], "--json and --output x.prom: what ends in .prom"),
        (["--openmetrics"], "Name a PID"),
        (["--listen", "1"], "Name a PID"),
        (["1", "--listen", "1", "--json"], "--listen answers by itself"),
        (["1", "--allow-remote"], "belongs to --listen"),
    ],
)
def test_contradictions(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_bad_address_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--listen", "foo"]) == 1
    assert "--listen wants [ADDRESS:]PORT such as 9177, not 'foo'" in capsys.readouterr().err


def test_what_cannot_be_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "no-such-file"]) == 1
    assert "neither a process id nor a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9177", ("127.0.0.1", 9177)),
        ("127.0.0.2:0", ("127.0.0.2", 0)),
        ("[::1]:9177", ("::1", 9177)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert address_of(text, remote=False) == address


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "192.0.2.7:9177"])
def test_others_may_read_only_if_allowed(text: str) -> None:
    with pytest.raises(HakmemError, match="add --allow-remote"):
        address_of(text, remote=False)
    assert address_of(text, remote=True)


@pytest.mark.parametrize("text", ["", "port", "1:", "127.0.0.1", "70000", "-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(HakmemError, match=r"\[ADDRESS:\]PORT"):
        address_of(text, remote=False)


def fetched(url: str, accept: str) -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})
    # Whatever proxy the environment names is not for this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=300) as answer:
        return str(answer.read().decode())


def test_the_server_looks_anew_for_each_scrape(tmp_path: Path) -> None:
    with shown(sample(), tmp_path) as first:
        command = [sys.executable, "-I", "-m", "hakmem", "stats", "--listen", "0"]
        with shown(sample(), tmp_path) as second:
            server = subprocess.Popen(
                [*command, str(first), str(second)], stderr=subprocess.PIPE, text=True
            )
            assert server.stderr is not None
            url = server.stderr.readline().split()[-1]
            found = samples(fetched(url, "application/openmetrics-text"))
            assert {v for (name, _), v in found.items() if name == "hakmem_up"} == {1}
        with server:
            found = samples(fetched(url, "application/openmetrics-text"))
            up = {dict(k)["pid"]: v for (name, k), v in found.items() if name == "hakmem_up"}
            assert up == {str(first): 1, str(second): 0}
            assert "# TYPE hakmem_refill_total counter" in fetched(url, "text/plain")
            assert "hakmem_up" in fetched(url.removesuffix("metrics"), "text/plain")
            for path in ("nope", "metrics/", "favicon.ico"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    fetched(url.replace("metrics", path), "text/plain")
            server.send_signal(signal.SIGINT)
            assert server.wait() == 130


def test_a_taken_port_is_told(process: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-I", "-m", "hakmem", "stats", str(process)]
        result = subprocess.run(
            [*command, "--listen", str(port)], capture_output=True, text=True, timeout=300
        )
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    sleeper = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", sleeper, "\x1b[31mred\x07"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin and child.stdout
        child.stdout.readline()
        assert command_line(child.pid).endswith("sys.stdin.read() [31mred")
        child.stdin.close()
