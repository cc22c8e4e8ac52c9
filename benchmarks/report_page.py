"""Size and opening time of the report in a real browser: `python benchmarks/report_page.py [cells] [repeats]`.

Synthetic records, real figures: what the page of a study of so many runs weighs, and how long a headless chromium
takes from the address to a page whose table can be used (median and range of seven openings; the first is not counted).
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import synthetic  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from whichdevice.config.model import Device, Measure, Study, Train, Workload  # noqa: E402
from whichdevice.figures import draw, figure_names  # noqa: E402
from whichdevice.report.contents import write_report  # noqa: E402
from whichdevice.tables.make import write_tables  # noqa: E402

OPENINGS = 7
AXES = {"precision": ["float32", "mixed_bfloat16"], "backend": ["tensorflow", "jax"]}
EACH = 2 * 4 * len(synthetic.FACTS)  # two devices and the axes above, for one batch size of every workload


def study_of(cells: int, repeats: int) -> Study:
    """About so many cells on two devices."""
    sizes = [16 * factor for factor in range(1, 1 + max(1, round(cells / EACH)))]
    return Study(
        study="page",
        devices={"cpu": Device(kind="cpu", usd_per_hour=0.4), "gpu": Device(kind="gpu", usd_per_hour=2.5)},
        workloads={name: Workload.model_validate({"batch_size": sizes, **AXES}) for name in synthetic.FACTS},
        measure=Measure(repeats=repeats),
        train=Train(epochs=5),
    )


def write_page(study: Study, folder: Path) -> tuple[Path, int]:
    """The page of a study, and the number of its runs."""
    config, paths = synthetic.write_study(study, folder)
    tables, figures = folder / "tables", folder / "figures"
    write_tables(config, paths, ROOT / "config/published.csv", tables)
    for name in figure_names():
        draw(name, tables, config, figures / f"{name}.svg", figures / f"{name}.png")
    write_report(config, tables, figures, folder / "report.html")
    return folder / "report.html", len(paths)


def openings(page: Path) -> list[float]:
    """Seconds of each opening but the first."""
    found = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(1 + OPENINGS):
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            clock = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("#cells-table_wrapper")
            found.append(time.perf_counter() - clock)
            tab.close()
        browser.close()
    return found[1:]


def main(cells: int, repeats: int) -> None:
    """Print bytes and seconds."""
    with tempfile.TemporaryDirectory() as name:
        page, runs = write_page(study_of(cells, repeats), Path(name))
        size, seconds = page.stat().st_size, openings(page)
        print(f"{runs} runs, {repeats} of each cell: report.html {size / 1e6:.2f} MB, usable after "
              f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}, n = {OPENINGS}); "
              f"report.md {page.with_suffix('.md').stat().st_size / 1e3:.0f} kB")  # fmt: skip


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(given[0] if given else 250, given[1] if len(given) > 1 else 4)
