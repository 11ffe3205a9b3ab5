"""Take docs/graph.png: the asset graph as Dagster's UI shows it. Needs Chromium (Debian: apt-get install chromium).

.venv/bin/python scripts/graph_screenshot.py [OUT.png]
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def webserver() -> Iterator[str]:
    """Run Dagster's web server on a free loopback port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = os.environ.get("DAGSTER_HOME", str(ROOT / ".dagster_home"))
    command = [
        str(Path(sys.executable).with_name("dagster-webserver")),
        "-w",
        "workspace.yaml",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"DAGSTER_HOME": home})
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/server_info", timeout=2)
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def main() -> None:
    """Open the graph of all groups and save what is on the screen."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "graph.png")
    with webserver() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1900, "height": 1250})
        page.goto(f"{url}/asset-groups", timeout=120_000)
        page.get_by_text("Hide navigation").click(timeout=120_000)
        page.wait_for_selector("text=evaluation", timeout=120_000)
        page.keyboard.press("Alt+KeyE")  # expand all groups
        page.wait_for_selector("text=submission_index", timeout=120_000)
        page.wait_for_timeout(4000)
        page.screenshot(path=str(out))
        browser.close()
    print(out)


if __name__ == "__main__":
    main()
