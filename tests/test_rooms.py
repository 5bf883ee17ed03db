"""The rooms of the house: each imports only what the README's table allows, and light rooms stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
THIRD_PARTY = {
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "gradio",
    "plotly",
    "numpy",
    "scipy",
    "pydantic",
    "rich",
    "numba",
    "psutil",
}


def table() -> dict[str, set[str]]:
    """{path of a room: what it may import}, from the README."""
    rows = re.findall(r"^\| `(slem_demo/[\w/.]+|app\.py)` \|[^|]*\|([^|]*)\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    return {path: {word.strip() for word in allowed.split(",")} for path, allowed in rows}


def room_of(path: str, rooms: dict[str, set[str]]) -> str | None:
    return max((room for room in rooms if path == room or (room.endswith("/") and path.startswith(room))), key=len, default=None)


def imports(path: Path) -> set[str]:
    """Third-party packages, and files of slem_demo, that a module imports anywhere but for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {n for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) for n in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module.startswith("slem_demo") else {node.module}
    return found


def home(module: str) -> str | None:
    """The file of a dotted name in this project (the longest prefix that is a file)."""
    parts = module.split(".")
    for n in range(len(parts), 0, -1):
        for candidate in (Path(*parts[:n]).with_suffix(".py"), Path(*parts[:n]) / "__init__.py"):
            if (ROOT / candidate).is_file():
                return str(candidate)
    return None


SOURCES = sorted(str(p.relative_to(ROOT)) for p in [ROOT / "app.py", *(ROOT / "slem_demo").rglob("*.py")] if p.stat().st_size)


@pytest.mark.parametrize("source", SOURCES)
def test_each_room_imports_only_what_its_row_names(source: str) -> None:
    rooms = table()
    room = room_of(source, rooms)
    assert room is not None, f"{source} has no row in the README's table"
    allowed = rooms[room]
    for module in imports(ROOT / source):
        top = module.split(".")[0]
        if top == "slem_demo":
            other = home(module)
            assert other is not None
            target = room_of(other, rooms)
            ok = (
                "all" in allowed
                or target in (room, "slem_demo/errors.py")
                or (target or "").removeprefix("slem_demo/").rstrip("/") in allowed
            )
            assert ok, f"{source} imports {other}"
        elif top in THIRD_PARTY:
            assert top in allowed, f"{source} imports {top}"


@pytest.mark.parametrize(
    ("module", "banned"),
    [
        ("slem_demo.engine.decode", {"gradio", "transformers", "plotly"}),
        ("slem_demo.views.live", {"gradio", "transformers", "torch"}),
        ("slem_demo.trace", {"gradio", "transformers", "torch", "numpy"}),
        ("slem_demo", {"gradio", "transformers", "torch"}),
        ("slem_demo.cli", {"gradio", "transformers", "torch"}),
        ("slem_demo.models.loading", {"gradio", "plotly"}),
    ],
)
def test_importing_a_room_loads_nothing_heavy(module: str, banned: set[str]) -> None:
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {banned!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_public_names_are_what_the_package_says() -> None:
    import slem_demo

    assert slem_demo.__all__ == sorted(slem_demo.__all__)
    for name in slem_demo.__all__:
        assert getattr(slem_demo, name) is not None
    with pytest.raises(AttributeError):
        _ = slem_demo.nonsense
