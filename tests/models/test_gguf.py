"""GGUF files and packages: what is here is found, what is wrong is named, what was converted is not converted again."""

from __future__ import annotations

from pathlib import Path

import pytest

from slem_demo.errors import SlemError
from slem_demo.models import gguf
from slem_demo.models.loading import load_pair
from slem_demo.models.pairs import Package


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLEM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_pieces_of_a_package_are_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(2):
        module = tmp_path / f"some_part{i}"
        module.mkdir()
        (module / "__init__.py").write_text("raise AssertionError('imported')")
        (module / "file.part").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = Package(("some",), (("some_part0", "file.part"), ("some_part1", "file.part")), "00")
    assert gguf.pieces_of(package) == [tmp_path / "some_part0" / "file.part", tmp_path / "some_part1" / "file.part"]
    (tmp_path / "some_part1" / "file.part").unlink()
    assert gguf.pieces_of(package) is None
    assert gguf.pieces_of(Package(("none",), (("no_such_module", "file"),), "00")) is None


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF, but not the one")
    with pytest.raises(SlemError, match="the file in its package is not the one that is expected"):
        gguf.converted("some", [file], "0" * 64)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64], ids=["empty", "text", "broken"])
def test_a_file_that_is_no_gguf_is_refused_and_leaves_nothing_behind(content: bytes, tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(SlemError, match=r"this \.gguf file cannot be read"):
        load_pair(f"{file}::builtin-draft")
    assert not list(cache.iterdir())


def test_what_was_converted_is_used_again(tmp_path: Path, cache: Path) -> None:
    pieces = [tmp_path / "a", tmp_path / "b"]
    for piece in pieces:
        piece.write_bytes(b"half")
    digest = gguf._digest(pieces)
    folder = cache / f"some-{digest[:12]}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert gguf.converted("some", pieces) == gguf.converted("some", [], digest) == (folder, digest[:12])


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("SLEM_CACHE", str(tmp_path / "taken"))
    with pytest.raises(SlemError, match=r"some: it cannot be converted into .*taken"):
        gguf.converted("some", [tmp_path / "taken"])
