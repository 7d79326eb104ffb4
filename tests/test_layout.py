"""The rooms: imports run one way, heavy packages stay where they belong, and the wheel holds every folder with code."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Where each import package lives, and which rooms it may import from beside itself.
FOLDERS = {
    "archspec.language": "archspec/language",
    "archspec.ops": "archspec/ops",
    "archspec.compiler": "compiler",
    "archspec.exporters": "exporters",
    "archspec.specs": "specs",
    "archspec.cli": "archspec/cli",
}
MAY_IMPORT = {
    "archspec.language": set(),
    "archspec.ops": set(),
    "archspec.compiler": {"archspec.language", "archspec.ops", "archspec.specs"},
    "archspec.exporters": {"archspec.language", "archspec.ops", "archspec.compiler"},
    "archspec.specs": set(),
    "archspec.cli": {"archspec.language", "archspec.ops", "archspec.compiler", "archspec.exporters"},
}
#: Modules beside the rooms that every room may import: they import nothing of the rooms at run time.
COMMON = {"archspec", "archspec.diagnostics", "archspec.errors"}
HEAVY = {
    "torch", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "graphviz", "safetensors", "gguf", "tokenizers", "transformers"
}  # fmt: skip


def files(folder: str) -> Iterator[Path]:
    return (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def imported(path: Path, package: str) -> Iterator[tuple[str, int]]:
    """(module, line) for everything a file imports, inside functions too, relative names made absolute."""
    base = ROOT / FOLDERS.get(package, package)
    parts = [*package.split("."), *path.relative_to(base).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            name = ".".join(filter(None, [module, node.module]))
            yield name, node.lineno
            yield from ((f"{name}.{alias.name}", node.lineno) for alias in node.names)


def room(module: str) -> str | None:
    return next((name for name in FOLDERS if module == name or module.startswith(f"{name}.")), None)


@pytest.mark.parametrize("package", FOLDERS)
def test_imports_run_one_way(package: str) -> None:
    """language, ops ← compiler ← exporters ← cli."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files(FOLDERS[package])
        for module, line in imported(path, package)
        if (found := room(module)) and found != package and found not in MAY_IMPORT[package]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["archspec.language", "archspec.ops", "archspec.compiler"])
def test_the_lower_rooms_do_not_know_the_api(package: str) -> None:
    """`archspec.api` stands above the compiler and the exporters."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files(FOLDERS[package])
        for module, line in imported(path, package)
        if module.startswith("archspec.api")
    ]
    assert not wrong, "\n".join(wrong)


def test_heavy_packages_are_imported_by_exporters_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for folder, package in (
            ("archspec", "archspec"),
            ("compiler", "archspec.compiler"),
            ("specs", "archspec.specs"),
        )
        for path in files(folder)
        for module, line in imported(path, package)
        if module.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def loaded(code: str) -> set[str]:
    """The top-level modules that are in memory after some code."""
    code = f"import sys\n{code}\nprint('modules', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tests")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


COMMAND = "from archspec.cli.main import cli\ncli.main({arguments!r}, standalone_mode=False)"


@pytest.mark.parametrize(
    "arguments", [["check", "gpt2"], ["show", "gpt2"], ["count", "gpt2"], ["list"], ["diagram", "gpt2", "-o", "-"]]
)
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    heavy = {*HEAVY, "rich", "numpy", "jinja2"} & loaded(COMMAND.format(arguments=arguments))
    assert not heavy


def test_importing_archspec_loads_nothing_but_itself() -> None:
    assert not {*HEAVY, "pydantic", "yaml", "click", "rich"} & loaded("import archspec")


def test_the_wheel_holds_every_folder_with_code() -> None:
    """`pyproject.toml` lists the packages: discovery would find the folders under their own names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    with_code = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for package, folder in (("archspec", "archspec"), *list(FOLDERS.items())[2:5])
        for path in files(folder)
    }
    assert set(project["packages"]) == with_code
    assert project["package-dir"] == {"archspec": "archspec"} | {p: f for p, f in FOLDERS.items() if "/" not in f}


def test_every_spec_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = project["package-data"]["archspec.specs"]
    specs = {path for path in (ROOT / "specs").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert specs == {path for pattern in patterns for path in (ROOT / "specs").glob(pattern)}
