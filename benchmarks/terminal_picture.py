"""Run a command in a terminal of its own and draw what a person saw as docs/images/NAME.svg.

python benchmarks/terminal_picture.py study -- whichdevice study --config study=picture
python benchmarks/terminal_picture.py ask -- whichdevice ask docs/examples/my_model.py
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 100, 40  # characters of the terminal
SIZE, LINE, MARGIN = 13, 18, 14  # of the picture, in its units
CHARACTER = 7.83  # width of one in the fonts below at this size
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CLEAR = "\033[2K"
MOST_LINES = 12  # that stay before the answer; of more the first and the last are drawn


@dataclass
class Screen:
    """Lines that stayed, and those that were written over, each with the seconds since the start."""

    stayed: list[tuple[float, str]] = field(default_factory=list)
    passed: list[tuple[float, str]] = field(default_factory=list)
    current: str = ""

    def take(self, text: str, now: float) -> None:
        """What the command wrote: plain text, carriage returns and erased lines."""
        for part in re.split(r"(\r\n|\n|\r|\033\[2K)", text):
            if part in ("\n", "\r\n"):
                self.stayed.append((now, self.current))
                self.current = ""
            elif part in ("\r", CLEAR):
                if self.current:
                    self.passed.append((now, self.current))
                self.current = ""
            else:
                self.current += part


def watch(command: list[str]) -> tuple[Screen, float]:
    """Run a command to its end; what it showed, and its seconds."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    began, screen = time.monotonic(), Screen()
    with subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True) as process:
        os.close(inner)
        while True:
            try:
                data = os.read(outer, 65536)
            except OSError:  # Linux says so where the terminal is closed
                break
            if not data:
                break
            screen.take(data.decode("utf-8", "replace"), time.monotonic() - began)
    os.close(outer)
    if process.returncode:
        raise SystemExit(f"{shlex.join(command)}: exit status {process.returncode}")
    return screen, time.monotonic() - began


def shortened(screen: Screen, answer_seconds: float = 2.0) -> list[str]:
    """The lines of a picture: the first ones, one that changed, the last ones and the whole answer."""
    end = screen.stayed[-1][0] if screen.stayed else 0.0
    work = [text for when, text in screen.stayed if when < end - answer_seconds]
    answer = [text for when, text in screen.stayed if when >= end - answer_seconds]
    live = [screen.passed[len(screen.passed) // 2][1]] if screen.passed else []
    if len(work) > MOST_LINES:
        left_out = f"… {len(work) - 6} more lines …"
        work = [*work[:4], *live, left_out, *work[-2:]]
    else:
        work += live
    return [*work, *answer]


def drawn(title: str, lines: list[str]) -> str:
    """The lines as SVG, broken where the terminal breaks them."""
    rows = [
        part for row in [f"$ {title}", *lines] for part in [row[i : i + WIDTH] for i in range(0, len(row) or 1, WIDTH)]
    ]
    width = MARGIN * 2 + CHARACTER * max(map(len, rows))
    height = MARGIN * 2 + LINE * len(rows)
    text = "".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * place + SIZE}" fill="{"#7ee787" if place == 0 else "#e6edf3"}">'
        f"{escape(row)}</text>\n"
        for place, row in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(title, quote=True)}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f'<g font-family="{FONTS}" font-size="{SIZE}" xml:space="preserve">\n{text}</g>\n</svg>\n'
    )


def main() -> None:
    """Run, and write the picture."""
    name, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        raise SystemExit(__doc__)
    screen, seconds = watch(command)
    lines = [*shortened(screen), "", f"({seconds:.0f} s)"]
    (FOLDER / f"{name}.svg").write_text(drawn(shlex.join(command), lines), encoding="utf-8")
    print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
