"""The rules a reader of the project relies on: who imports whom, sizes, words in both languages, nothing fetched."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from transformer.errors import SENTENCES

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {"runs", "screenshots", "node_modules", "__pycache__"}
STRINGS = ROOT / "assets" / "strings"
LANGUAGES = ("en", "zh")


def project_files(*suffixes: str) -> list[Path]:
    """Every file of the project, or those with one of ``suffixes``: what git keeps or would keep, else all on disk."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        files = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # a download without its history, or no git
        files = [
            path for path in ROOT.rglob("*")
            if not any(part.startswith(".") or part in NOT_OURS for part in path.relative_to(ROOT).parts[:-1])
        ]
    return sorted(path for path in files if path.is_file() and (not suffixes or path.suffix in suffixes))


def imported_modules(file: Path) -> Iterator[str]:
    """Full names of what a file imports, wherever in it the import stands."""
    package = file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def forbidden_imports(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in files
        for module in imported_modules(file)
        if any(module == name or module.startswith(f"{name}.") for name in forbidden)
    ]


def test_the_network_never_imports_the_page_or_the_figures():
    files = sorted((ROOT / "transformer").rglob("*.py"))
    assert len(files) > 10
    assert forbidden_imports(files, ("gradio", "plotly", "viz", "app")) == []


def test_figures_import_neither_the_network_nor_the_page():
    files = sorted((ROOT / "viz").glob("*.py"))
    assert len(files) > 2
    assert forbidden_imports(files, ("torch", "gradio", "transformer", "viz.tabs", "app")) == []


def test_tabs_do_not_import_the_app():
    assert forbidden_imports(sorted((ROOT / "viz" / "tabs").rglob("*.py")), ("app",)) == []


def test_a_forbidden_import_is_found_wherever_and_however_it_is_written(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    folder = tmp_path / "viz" / "deep"
    folder.mkdir(parents=True)
    file = folder / "probe.py"
    late = ("import torch.nn", "from ..tabs import session", "from viz import tabs")
    file.write_text("\n    ".join(("import os\ndef late():", *late)))
    assert forbidden_imports([file], ("torch", "viz.tabs")) == [
        "viz/deep/probe.py imports torch.nn",
        "viz/deep/probe.py imports viz.tabs.session",
        "viz/deep/probe.py imports viz.tabs",
    ]


def test_no_file_is_longer_than_400_lines():
    files = project_files(".py", ".js", ".css", ".html")
    assert files
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_no_file_is_larger_than_10_mb():
    sizes = {str(file.relative_to(ROOT)): file.stat().st_size for file in project_files()}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > 10 * 2**20} == {}


def test_nothing_is_ever_unpickled():
    """Weights come as safetensors, runs as JSON."""
    loaders = re.compile(r"\b(import pickle|from pickle|torch\.load\(|allow_pickle=True|joblib|dill\b)")
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in project_files(".py")
        if "tests" not in file.relative_to(ROOT).parts
        for match in loaders.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_random_numbers_come_from_generators_of_their_own():
    """A seed set for the whole process would let one visitor's training change another's."""
    shared = re.compile(r"\b(torch\.manual_seed|torch\.random\.manual_seed|np\.random\.seed|random\.seed)\(")
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in project_files(".py")
        if "tests" not in file.relative_to(ROOT).parts
        for match in shared.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


THIRD_PARTY = re.compile(r"""(?:https?:|wss?:)?//(?!www\.w3\.org/)(?:[\w-]+\.)+[a-z]{2,}|@import""")


def test_scripts_styles_and_templates_name_no_other_server():
    """Row 22 of the cases: nothing is fetched from a third party. Names of SVG and XHTML are addresses only in form."""
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in project_files(".js", ".css", ".html", ".svg")
        for match in THIRD_PARTY.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert THIRD_PARTY.search("fetch('https://cdn.example.com/x.js')")
    assert THIRD_PARTY.search("url(//fonts.example.org/a.woff2)")
    assert not THIRD_PARTY.search("http://www.w3.org/2000/svg // a comment. And more")


def strings(language: str) -> dict[str, str]:
    """``section.name`` -> text of one language."""
    return {
        f"{file.stem}.{name}": text
        for file in sorted((STRINGS / language).glob("*.json"))
        for name, text in json.loads(file.read_text(encoding="utf-8")).items()
    }


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_both_languages_have_the_same_keys():
    english, chinese = (set(strings(language)) for language in LANGUAGES)
    assert english
    assert english - chinese == set(), "missing in Chinese"
    assert chinese - english == set(), "missing in English"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_a_text_that_is_not_empty(language):
    assert [key for key, text in strings(language).items() if not isinstance(text, str) or not text.strip()] == []


def test_both_languages_fill_in_the_same_values():
    english, chinese = (strings(language) for language in LANGUAGES)
    different = {
        key: (placeholders(english[key]), placeholders(chinese[key]))
        for key in english.keys() & chinese.keys()
        if placeholders(english[key]) != placeholders(chinese[key])
    }
    assert different == {}


def test_no_key_is_written_twice_in_a_section():
    """JSON would keep the last one and say nothing."""

    def unique(pairs: list[tuple[str, str]]) -> dict[str, str]:
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"twice: {sorted(name for name in names if names.count(name) > 1)}"
        return dict(pairs)

    for file in STRINGS.rglob("*.json"):
        json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=unique)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_error_of_the_network_can_be_said_with_the_values_it_has(language):
    said = strings(language)
    for code, sentence in SENTENCES.items():
        assert f"errors.{code}" in said, code
        assert placeholders(said[f"errors.{code}"]) <= placeholders(sentence), code


def named_strings(file: Path) -> Iterator[str]:
    """The keys a tab names in ``say(language, KEY)`` and ``add(component, value=KEY)``, as far as they are literal."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            arguments = node.args[1:2] if called == "say" else [k.value for k in node.keywords if called == "add"]
            for argument in arguments:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def test_every_string_a_tab_names_exists():
    said = strings("en")
    named = {key for file in (ROOT / "viz" / "tabs").rglob("*.py") for key in named_strings(file)}
    assert {key for key in named if re.fullmatch(r"\w+\.\w+", key)} - set(said) == set()


DOCUMENTS = ("README.md", "docs/architecture.md", "docs/terminology.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_and_hook_point_a_document_names_exists(document):
    """A path is given from the root or from one of the folders whose files a document lists. NAME is a reader's own."""
    code = re.findall(r"`([^`\n]+)`", (ROOT / document).read_text(encoding="utf-8"))
    files = {name for text in code for name in re.findall(r"^[\w./-]+\.(?:py|js|md|html|json|txt|toml)$", text)}
    folders = ("", "transformer", "viz", "checkpoints/copy", "assets/strings/en")
    missing = {name for name in files if not any((ROOT / folder / name).exists() for folder in folders)}
    assert {name for name in missing if "NAME" not in name} == set()
    hooks = {name for text in code for name in re.findall(r"hook_\w+", text)}
    network = (ROOT / "transformer" / "model.py").read_text(encoding="utf-8")
    assert {name for name in hooks if f"self.{name}" not in network} == set()


def test_every_case_has_tests_and_they_exist():
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", (ROOT / "docs" / "cases.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 23))
    for number, row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, f"row {number} names no test"
        for file, test in named:
            written = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {test}(" in written, f"row {number}: {file}::{test}"


@pytest.mark.parametrize("sheet", sorted((ROOT / "assets" / "styles").glob("*.css")), ids=lambda sheet: sheet.stem)
def test_every_brace_of_a_style_sheet_is_closed(sheet):
    """All sheets become one text, so a rule left open would swallow what comes after it."""
    depth = 0
    for number, line in enumerate(sheet.read_text(encoding="utf-8").splitlines(), 1):
        depth += line.count("{") - line.count("}")
        assert depth >= 0, f"line {number} closes what was never opened"
    assert depth == 0
