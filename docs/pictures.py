"""Draw the pictures of the documentation that are pages of this project: `make pictures`. Needs Chromium.

    python docs/pictures.py       docs/images/answer.png and explorer.png

The answer is the one that opens README. The scorecard is drawn by `make results`, forecasts.png by `make forecasts`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from outputs import COMMANDS, PROJECT

from whichdevice.apps.explorer.answers import write_page

IMAGES = Path(__file__).resolve().parent / "images"
WIDE, HIGH = 1280, 860
MODEL = "meta-llama/Llama-3.1-8B"


def main() -> None:
    """Write both pages into a folder of their own, and draw their first screens."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        pages = {"answer": Path(folder) / "answer.html", "explorer": Path(folder) / "explorer.html"}
        call = [sys.executable, "-m", "whichdevice", *shlex.split(COMMANDS["front"]), "--html", str(pages["answer"])]
        variables = {**os.environ, "PYTHONPATH": str(PROJECT / "scripts")}
        subprocess.run(call, cwd=PROJECT, env=variables, check=True, stdout=subprocess.DEVNULL)
        write_page(pages["explorer"], [MODEL])
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDE, "height": HIGH})
        for name, file in pages.items():
            page.goto(file.as_uri())
            end = page.evaluate("document.body.getBoundingClientRect().bottom")
            high = min(HIGH, end)
            page.screenshot(path=IMAGES / f"{name}.png", clip={"x": 0, "y": 0, "width": WIDE, "height": high})
            print(f"docs/images/{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
