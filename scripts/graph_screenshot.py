"""Take docs/graph.png: the asset graph as Dagster's UI shows it. Needs Chromium (Debian: apt-get install chromium).

make demo
.venv/bin/python -m scripts.graph_screenshot [--out FILE.png] [--data-root data/demo] [--home .dagster_home]
"""

import argparse
from pathlib import Path

from playwright.sync_api import sync_playwright

from scripts.dagster_ui import ROOT, running

SIZE = {"width": 1500, "height": 1000}


def main() -> None:
    """Open the graph of all groups and save what is on the screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "graph.png")
    parser.add_argument("--data-root", type=Path, default=ROOT / "data" / "demo")
    parser.add_argument("--home", type=Path, default=ROOT / ".dagster_home")
    options = parser.parse_args()
    with running(root=options.data_root, home=options.home.resolve()) as ui, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        page.set_default_timeout(120_000)
        page.goto(f"{ui.url}/asset-groups")
        page.get_by_text("Hide navigation").click()
        page.get_by_text("evaluation", exact=True).first.wait_for()
        page.keyboard.press("Alt+KeyE")  # expands every group
        page.get_by_text("submission_index", exact=True).first.wait_for()
        page.reload()  # the graph fits the window only when it is opened; which groups are open is remembered
        page.get_by_text("submission_index", exact=True).first.wait_for()
        page.wait_for_timeout(4000)  # the layout moves into place
        page.screenshot(path=str(options.out))
        browser.close()
    print(options.out)


if __name__ == "__main__":
    main()
