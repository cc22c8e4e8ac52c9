"""Figures as files: PNG light, SVG in whatever colour scheme the reader's browser has."""

import os
from pathlib import Path

from matplotlib.figure import Figure

from whichdevice.figures import style

# What each colour becomes where the page is dark; all keep their order of lightness against each other.
DARK = {
    style.PAPER: "#14181c",
    style.BLACK: "#e4e8ec",
    style.GREY: "#a3adb8",
    style.FAINT: "#5d6873",
    style.PALE: "#3d4650",
    style.GRID: "#2b333b",
    style.BLUE: "#3a9bdc",
    style.SKY: "#79bdeb",
    style.GREEN: "#1fb98e",
    style.RED: "#f0793a",
    style.PURPLE: "#d99abc",
    style.ORANGE: "#f0b429",
    style.ERROR: "#ff9a80",
}


def save(figure: Figure, out_svg: Path, out_png: Path) -> None:
    """Write both files aside and rename them; no date goes into them."""
    for path, options in [(Path(out_svg), {"metadata": {"Date": None}}), (Path(out_png), {"dpi": 160})]:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            figure.savefig(aside, format=path.suffix[1:], **options)  # type: ignore[arg-type]
            if path.suffix == ".svg":
                aside.write_text(following_scheme(aside.read_text(encoding="utf-8")), encoding="utf-8")
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)


def following_scheme(svg: str) -> str:
    """An SVG that a browser shows in the page's colour scheme; every other program shows it light, as it was."""
    rules = (
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    sheet = f'<style type="text/css">@media (prefers-color-scheme: dark) {{ {" ".join(rules).lower()} }}</style>'
    return svg.replace("<defs>", f"<defs>{sheet}", 1)
