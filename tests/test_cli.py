"""The command line as its user meets it: exit codes, streams, formats, and what it never imports."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from archspec.api import load, zoo
from archspec.cli.main import COMMANDS
from archspec.compiler.precision import Name
from archspec.exporters.count_tables import tables
from archspec.exporters.tables import Column, Table

TINY = """\
archspec: 1
name: tiny
vocab_size: 50
context_length: 32
d_model: 16
norm: layernorm
embedding: {position: learned}
decoder:
  layers: 2
  attention: {heads: 2}
  ffn: {kind: mlp, width: {ratio: 4}, activation: gelu}
head: {tied: true}
"""


def run(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "archspec.cli.main", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
    )


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Example:" in done.stdout
    assert f"archspec {command}" in done.stdout


def overlong(text: str, width: int) -> list[str]:
    """Lines wider than a terminal, but for those of one word, which cannot be broken, and examples, which are to be copied."""
    lines = (line for line in text.splitlines() if not line.startswith("    archspec "))
    return [line for line in lines if len(line) > width and " " in line.strip()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_printed_fits_the_terminal(width: int, tmp_path: Path) -> None:
    columns = {"COLUMNS": str(width)}
    for command in COMMANDS:
        assert not overlong(run(command, "--help", **columns).stdout, width)
    assert not overlong(run("doctor", **columns).stdout, width)
    assert not overlong(run("list", **columns).stdout, width)
    assert not overlong(run("show", "kimi-k2", "--layers", **columns).stdout, width)
    for spec, *flags in (("kimi-k2",), ("kimi-k2", "--by", "path", "--precision", "int4"), ("bart-base", "--explain")):
        assert not overlong(run("count", spec, *flags, **columns).stdout, width)
    done = run("run", "no-such-folder-of-a-name-that-takes-its-place-in-a-line", "--ids", "1", "--seed", "1", **columns)
    assert done.stderr.startswith("error: ")
    assert "\n  = " in done.stderr
    assert not overlong(done.stderr, width)


def test_errors_keep_their_own_lines(tmp_path: Path) -> None:
    """Tensors that do not fit are listed, one a line, and a long sentence hangs below its beginning."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    run("build", "tiny.yaml", "-o", "other", "--set", "d_model=32", "--set", "decoder.layers=1", cwd=tmp_path)
    told = run("build", "tiny.yaml", "--weights", "other", "-o", "new", cwd=tmp_path, COLUMNS="80").stderr
    assert not overlong(told, 80)
    assert len(told.splitlines()) > 5


def test_diagnostics_fit_the_terminal_and_sources_stay_whole(tmp_path: Path) -> None:
    """A remedy that lists keys hangs below its own beginning; the line of the file is one line, and the record is unbroken."""
    source = f"banana: 1  # {'a comment that is wider than any terminal ' * 2}".rstrip()
    (tmp_path / "broken.yaml").write_text(TINY.replace("d_model: 16", f"d_model: 16\n{source}"))
    told = run("check", "broken.yaml", cwd=tmp_path, COLUMNS="60").stderr.splitlines()
    shown = next(i for i, line in enumerate(told) if line.endswith(f"| {source}"))
    assert "^" in told[shown + 1]
    assert not overlong("\n".join(told[:shown] + told[shown + 1 :]), 60)
    hung = next(i for i, line in enumerate(told) if line.startswith("   = "))
    assert told[hung + 1].startswith("     ")
    (record,) = json.loads(run("check", "broken.yaml", "--json", cwd=tmp_path, COLUMNS="60").stdout)
    remedy = " ".join(line.strip() for line in told[hung:]).removeprefix("= ")
    assert remedy == record["remedy"]
    assert len(remedy) > 60


def test_in_a_pipe_a_row_is_a_line(tmp_path: Path) -> None:
    """Only a terminal has a width; whoever reads rows reads one a line."""
    piped = run("list", COLUMNS="").stdout.splitlines()
    assert len(run("list", COLUMNS="60").stdout.splitlines()) > len(piped) == 1 + len(zoo())
    assert run("list", "--format", "csv", COLUMNS="60").stdout == run("list", "--format", "csv", COLUMNS="").stdout


def test_a_table_that_is_too_wide_has_its_first_cells_on_lines_of_their_own() -> None:
    flags = ("count", "kimi-k2", "--by", "path")
    whole = run(*flags, COLUMNS="120").stdout.splitlines()
    halved = run(*flags, COLUMNS="80").stdout.splitlines()
    assert len(halved) == 2 * len(whole) - 1  # but for the title
    assert [a.split() + b.split() for a, b in zip(halved[1::2], halved[2::2], strict=True)] == [
        line.split() for line in whole[1:]
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("precision", ["fp32", "int4"])
def test_the_counts_of_every_published_model_fit_the_terminal(width: int, precision: Name) -> None:
    for name in zoo():
        told = "\n".join(table.text(width=width) for table in tables(load(name).count(precision=precision)))
        assert not [line for line in told.splitlines() if len(line) > width]


def test_a_table_that_is_far_too_wide_has_a_line_for_every_number() -> None:
    table = Table("Wide", [Column("who", ""), *(Column(f"n{i}", f"heading {i}", right=True) for i in range(5))])
    table.rows += [("first", 10**9, 2, None, 4, 5), None, ("all", 1, 2, 3, 4, 5)]
    lines = table.text(width=40).splitlines()
    below = ["first", "  heading 0  1000000000", "  heading 1           2", "  heading 3           4"]
    assert lines[:5] == ["Wide", *below]
    assert lines[6:8] == ["─" * 40, "all"]
    assert all(len(line) <= 40 for line in lines)
    assert len(table.text(width=80).splitlines()) == 5


def test_an_unknown_command_names_its_neighbour() -> None:
    done = run("cuont", "gpt2")
    assert done.returncode == 2
    assert "Did you mean 'count'?" in done.stderr


def test_exit_codes(tiny: Path, tmp_path: Path) -> None:
    assert run("check", str(tiny)).returncode == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(TINY.replace("heads: 2", "heads: 3"))
    done = run("check", str(broken))
    assert done.returncode == 1
    assert "error[A201]" in done.stderr
    assert done.stdout == ""
    assert run("count", str(tiny), "--length", "0").returncode == 2
    assert run("count", str(tiny), "--length", "33").returncode == 2
    assert run("count", "no-such-spec").returncode == 1


def test_diagnostics_as_records(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(TINY.replace("heads: 2", "heads: 3").replace("activation: gelu", "activation: gleu"))
    done = run("check", str(broken), "--json")
    records = json.loads(done.stdout)
    assert done.returncode == 1
    assert {r["code"] for r in records} == {"A201", "A105"}
    assert all(r["line"] > 0 for r in records)


def test_count_formats_agree(tiny: Path) -> None:
    record = json.loads(run("count", str(tiny), "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(run("count", str(tiny), "--format", "csv").stdout)))
    total = 50 * 16 + 32 * 16 + 2 * (4 * 16 * 16 + 2 * 16 * 64 + 2 * 2 * 16) + 2 * 16
    assert record["parameters"]["total"] == total
    said = {(r["table"], r["row"], r["quantity"]): int(r["value"]) for r in rows}
    assert len(said) == len(rows), "every line says another thing"
    assert said["parameters", "total", "parameters"] == total
    assert said["layers", "decoder.0-1", "count"] == 2
    assert said["flops", "total", "causal"] == record["flops"]["forward"]["causal"]
    assert said["kv_cache", "total", "bytes"] == record["kv_cache"]["bytes"]
    assert said["memory", "training", "bytes"] == record["memory"]["training"]
    assert f"| total | {total:,} | 100.0 % |" in run("count", str(tiny), "--format", "markdown").stdout
    assert (record["batch"], record["length"], record["past"], record["precision"]["name"]) == (1, 32, 0, "fp32")


def test_count_by_path_adds_up(tiny: Path) -> None:
    record = json.loads(run("count", str(tiny), "--by", "path", "--format", "json").stdout)
    assert sum(record["parameters"]["by_path"].values()) == record["parameters"]["total"]


def test_no_colour_in_pipes_and_with_no_color(tiny: Path) -> None:
    for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in run("count", str(tiny), **env).stdout
        assert "\x1b" not in run("check", str(tiny) + "x", **env).stderr


def test_show_is_a_spec_that_means_the_same(tiny: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown.yaml"
    shown.write_text(run("show", str(tiny)).stdout)
    assert run("show", str(shown)).stdout == shown.read_text()


def test_init_writes_specs_that_check(tmp_path: Path) -> None:
    assert run("init", "My Model.yaml", cwd=tmp_path).returncode == 0
    assert run("init", "g.yaml", "--like", "gpt2", cwd=tmp_path).returncode == 0
    done = run("check", "./My Model.yaml", "./g.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "124,439,808" in done.stdout
    assert run("init", "g.yaml", cwd=tmp_path).returncode == 2, "an existing file is not overwritten"
    assert run("init", "g.yaml", "--force", cwd=tmp_path).returncode == 0


def test_the_zoo_is_listed_with_its_totals() -> None:
    rows = {r["name"]: r["parameters"] for r in json.loads(run("list", "--format", "json").stdout)}
    assert rows["gpt2"] == 124_439_808
    assert rows["bert-base"] == 109_514_298


def test_the_schema_is_json_schema() -> None:
    import jsonschema

    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    import yaml

    spec = yaml.safe_load(TINY)
    jsonschema.validate(spec, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**spec, "hidden_size": 16}, schema)


def test_a_diagram_without_dot_is_still_dot(tiny: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = run("diagram", str(tiny), "-o", "x.svg", cwd=tmp_path, PATH=str(empty))
    assert done.returncode == 2
    assert "graphviz" in done.stderr.lower()
    assert (tmp_path / "x.dot").read_text().startswith(("digraph", "graph", "//"))
    assert not (tmp_path / "x.svg").exists()


def test_build_export_run(tiny: Path, tmp_path: Path) -> None:
    """The day's work on a tiny model, from the YAML to tokens."""
    built = run("build", str(tiny), "-o", "built", "--seed", "3", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "built" / "model.safetensors").is_file()
    exported = run("export", "built", "-o", "onnx", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert "verified on onnxruntime" in exported.stdout
    again = run("export", "built", "-o", "onnx", cwd=tmp_path)
    assert again.returncode == 2, "an existing folder is not overwritten"
    assert run("export", "built", "-o", "onnx", "--force", cwd=tmp_path).returncode == 0
    ran = run("run", "onnx", "--ids", "1,2,3", "-n", "4", "--json", "--device", "cpu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    import torch

    from archspec import load

    module = load(tmp_path / "built").build()
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        for _ in range(4):
            ids = torch.cat((ids, module(ids)[:, -1:].argmax(-1)), 1)
    assert json.loads(ran.stdout)["ids"] == ids[0, 3:].tolist()


def test_run_stays_inside_the_context_unless_told_otherwise(tiny: Path, tmp_path: Path) -> None:
    assert run("export", str(tiny), "-o", "onnx", cwd=tmp_path).returncode == 0
    ids = ("run", "onnx", "--device", "cpu", "--ids", "1,2,3")
    done = run(*ids, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["ids"]) == 32 - 3 + 1, "the last one is not read again"
    over = run(*ids, "-n", "31", cwd=tmp_path)
    assert over.returncode == 1
    assert over.stdout.endswith("\n")
    assert "at most 30 (-n)" in over.stderr


def test_run_gives_what_the_head_gives(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(TINY.replace("{tied: true}", "{kind: classifier, labels: 3, pool: last}"))
    assert run("export", "c.yaml", "-o", "onnx", cwd=tmp_path).returncode == 0
    done = run("run", "onnx", "--device", "cpu", "--ids", "1,2,3", "--json", cwd=tmp_path)
    chances = json.loads(done.stdout)
    assert (len(chances), round(sum(chances), 5)) == (3, 1.0)


def test_a_single_label_is_a_score(tmp_path: Path) -> None:
    """As of a reranker: the number itself, and no share of one. In fewer bits its divergence is that of a yes from a no."""
    spec = TINY.replace("{tied: true}", "{kind: classifier, labels: 1, pool: last, transform: {activation: tanh}}")
    (tmp_path / "c.yaml").write_text(spec)
    assert run("export", "c.yaml", "-o", "onnx", "--precision", "fp16", cwd=tmp_path).returncode == 0
    told = run("run", "onnx", "--device", "cpu", "--ids", "1,2,3", cwd=tmp_path)
    score = json.loads(run("run", "onnx", "--device", "cpu", "--ids", "1,2,3", "--json", cwd=tmp_path).stdout)["score"]
    assert told.stdout == f"score {score:.4f}\n"
    assert score != 1.0


def test_run_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    assert run("run", str(tmp_path)).returncode == 2
    done = run("run", str(tmp_path), "--ids", "1")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    done = run("run", str(tmp_path), "--ids", "1,x")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tiny: Path) -> None:
    """One that is gone before a word is written, so that there is no telling how much fits into the pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "archspec.cli.main", "count", str(tiny), "--by", "path"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_as_good_as_empty(closed: str, tiny: Path, tmp_path: Path) -> None:
    """And no file that is written gets the number of one, and with it what is printed."""
    out = tmp_path / "out"
    for words in (f"export {tiny} --no-verify -o {out}", f"run {out} --ids 1,2,3 -n 3"):
        command = f"exec {sys.executable} -m archspec.cli.main {words} {closed}"
        assert subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode == 0, words
    assert run("run", str(out), "--check", "--ids", "1,2", "-n", "2").returncode == 0
    asked = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m archspec.cli.main run {out} - <&-"], capture_output=True, text=True
    )
    assert (asked.returncode, "Traceback" in asked.stderr) == (1, False)


@pytest.mark.parametrize("ids", ["1_0,2", "\N{ARABIC-INDIC DIGIT THREE},1", "1,,2", "0x1"])
def test_ids_are_plain_numbers(ids: str, tiny: Path, tmp_path: Path) -> None:
    run("export", str(tiny), "--no-verify", "-o", str(tmp_path / "out"))
    done = run("run", str(tmp_path / "out"), "--ids", ids)
    assert (done.returncode, "is no list of token ids" in done.stderr) == (2, True)


#: What a signal meets: C that makes another exception of its own, C that drops it, and an import, which would go wrong by it.
MET = {
    "another": "try: come()\nexcept BaseException: raise ValueError",
    "dropped": "try: come()\nexcept BaseException: pass",
    "a finaliser": "type('Met', (), {'__del__': come})()",
    "an import": "import extension",
}


@pytest.mark.parametrize(("signal", "code", "said"), [("SIGTERM", 143, ""), ("SIGINT", 130, "interrupted\n")])
@pytest.mark.parametrize("met", MET)
def test_a_signal_ends_a_command_whatever_it_meets(signal: str, code: int, said: str, met: str, tmp_path: Path) -> None:
    """And what is cleared away then has its time."""
    (tmp_path / "extension.py").write_text(
        f"import os, signal\ntry: signal.raise_signal(signal.{signal})\nexcept BaseException: os.abort()"
    )
    script = f"""
import signal, time
from archspec.cli import main, signals

def come(*_):
    signal.raise_signal(signal.{signal})

def command(**_):
    try:
        exec({MET[met]!r})
        time.sleep(60)
    finally:
        time.sleep(3 * signals.AGAIN)
        print("cleared away")

main.cli.main = command
main.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (code, "cleared away\n", said)


@pytest.mark.parametrize("met", ["raised", "dropped"])
def test_a_signal_that_comes_at_any_moment_is_told(met: str) -> None:
    """It comes between every two steps of the interpreter, those in which the command ends too; what ended before it is fine."""
    come = "signal.raise_signal(signal.SIGINT)"
    met = {"raised": come, "dropped": MET["dropped"].replace("come()", come)}[met]
    fine = [(130, "", "interrupted\n")] + [(0, "", "")] * (met != come)
    script = f"""
import signal
from archspec.cli import main, signals

def command(**_):
    exec({met!r})

signals.AGAIN = 1e-5
main.cli.main = command
main.main()
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout, done.stderr) in fine


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As a shell has it for what runs in the background."""
    script = (
        "import signal; from archspec.cli import main as m; m.cli.main = lambda **_: signal.raise_signal(2); m.main()"
    )
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", script]
    assert subprocess.run(command).returncode == 0


def test_an_export_without_a_stderr(tiny: Path, tmp_path: Path) -> None:
    """As a service may have it: nothing is said there, and all is done."""
    command = f"{sys.executable} -m archspec.cli.main export {tiny} --no-verify -o {tmp_path / 'out'} 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert (tmp_path / "out" / "archspec.json").is_file()
