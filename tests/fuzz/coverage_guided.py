"""One reader under atheris, which looks for inputs that reach new lines: python tests/fuzz/coverage_guided.py READER.

Options: --seconds 600; the readers are those of readers.py. Needs `pip install atheris` (Linux, Python 3.11 or 3.12).
Ends with the input where a reader raises anything but StudyError.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "scripts"), str(Path(__file__).parents[1])]


def main() -> None:
    """Fuzz until the time is up or a fault is found."""
    import atheris

    with atheris.instrument_imports(include=["whichdevice"]):
        from fuzz.readers import readers

        from whichdevice.errors import StudyError

    known = {reader.name: reader for reader in readers()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=sorted(known))
    parser.add_argument("--seconds", type=int, default=600)
    asked = parser.parse_args()
    reader = known[asked.reader]
    with tempfile.TemporaryDirectory() as scratch:
        path, corpus = Path(scratch) / "read" / reader.name, Path(scratch) / "corpus"
        path.parent.mkdir()
        corpus.mkdir()
        (corpus / "valid").write_bytes(reader.valid)

        def one(content: bytes) -> None:
            path.write_bytes(content)
            try:
                reader.read(path)
            except StudyError:
                return

        limits = [f"-max_total_time={asked.seconds}", "-timeout=20", "-rss_limit_mb=4000"]
        atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
