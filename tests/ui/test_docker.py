"""The Dockerfile's steps without a Docker daemon: a clean copy, as user 1000 with a home of its own, answers on the port it exposes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import torch

from tests.ui.conftest import free_port

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def interpreter(user: dict[str, int]) -> str:
    """A Python of this version that the user may run: this one may lie in root's own folder."""
    for path in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run([path, "-c", ""], check=True, **user)  # type: ignore[call-overload]
        except OSError:
            continue
        return path
    raise AssertionError("no Python of this version that user 1000 may run")


def test_the_container_starts_as_an_ordinary_user_from_a_clean_copy(tmp_path: Path) -> None:
    """Only the port differs, and packages are those already installed."""
    assert re.search(r"^RUN useradd .*--uid 1000", DOCKERFILE, re.M) and re.search(r"^USER user$", DOCKERFILE, re.M)
    assert re.search(r'^CMD \["python", "app.py"\]$', DOCKERFILE, re.M)
    home, app = tmp_path / "home", tmp_path / "home" / "app"
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        if (ROOT / name).is_file():
            (app / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, app / name)
    environment = dict(re.findall(r"(\w+)=([^\s]+)", re.search(r"^ENV (.*)$", DOCKERFILE, re.M)[1]))  # type: ignore[index]
    assert (environment["GRADIO_SERVER_NAME"], environment["GRADIO_SERVER_PORT"]) == ("0.0.0.0", "7860")
    port = free_port()
    environment |= {"HOME": str(home), "HF_HOME": str(home / ".cache"), "PATH": os.environ["PATH"], "GRADIO_SERVER_PORT": str(port)}
    user: dict[str, int] = {}
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "1000:1000", str(tmp_path)], check=True)
        for folder in tmp_path.parents:
            folder.chmod(folder.stat().st_mode | 0o111)
        user = {"user": 1000, "group": 1000}
        environment["PYTHONPATH"] = str(Path(torch.__file__).parents[1])
    server = subprocess.Popen([interpreter(user), "app.py"], cwd=app, env=environment, **user)  # type: ignore[call-overload]
    try:
        for _ in range(240):
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).read().decode()
                break
            except OSError:
                assert server.poll() is None, "the app ended"
                time.sleep(0.25)
        assert "SLEM, live" in page
    finally:
        server.terminate()
        server.wait(10)
