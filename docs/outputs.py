"""Run the commands that open the documentation's pages and keep what they print: `make outputs`.

    python docs/outputs.py [NAME ...]       docs/outputs/<name>.txt, which `docs/generate.py` puts into the pages

Each is one `whichdevice` command, but for `python`: the first block of docs/how-to/python.md. All but `ask` and
`pipeline` answer from forecasts alone, so that a busy machine changes nothing but the host's time, and of `serve` the
row of this machine.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PROJECT = DOCS.parent
FOLDER = DOCS / "outputs"
WIDTH = "100"
PYTHON = "python"
COMMANDS = {
    "front": "ask resnet50 --examples 1281167 --epochs 90 --deadline 3d --no-measuring",
    "ask": "ask docs/examples/my_model.py --examples 60000 --epochs 10",
    "keras": 'ask docs/examples/train_keras.py --no-measuring --devices T4,L4,"RTX 4090","A100 SXM 80GB"',
    "fit": 'ask hf:meta-llama/Llama-3.1-8B --tokens 1e8 --no-measuring --devices "RTX 4090","A100 SXM 80GB"',
    "torch": "ask docs/examples/torch_resnet18.py --examples 1281167 --epochs 90 --no-measuring",
    "lora": "ask hf:meta-llama/Llama-3.1-8B --option method=lora --tokens 50e6 --no-measuring",
    "gpus": "ask hf:meta-llama/Llama-3.1-70B --option method=lora --tokens 50e6 --no-measuring --gpus auto "
    '--devices "A100 SXM 80GB,H100 SXM"',
    "free": "ask docs/examples/torch_resnet18.py --examples 50000 --epochs 10 --only free --no-measuring",
    "pipeline": 'ask docs/examples/train_torch.py --no-measuring --devices T4,"RTX 4090"',
    "serve": "serve hf:meta-llama/Llama-3.1-8B-Instruct --rps 5 --ttft 1s --tpot 50ms",
    "serve70": "serve hf:meta-llama/Llama-3.1-70B-Instruct --weights awq --gpus 1 --ttft 9s --why "
    '--devices "RTX A6000,L40S,H100 SXM,DGX Spark,Apple M4 Max"',
    "images": "serve hf:black-forest-labs/FLUX.1-dev --latency 30s",
    "generate": 'ask decoder --mode generate --batch 8 --no-measuring --devices "H100 SXM"',
}


def main() -> None:
    """Run the commands that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", choices=[*COMMANDS, PYTHON, []])
    FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().name or [*COMMANDS, PYTHON]:
        (FOLDER / f"{name}.txt").write_text(printed(name), encoding="utf-8")
        print(f"docs/outputs/{name}.txt")


def printed(name: str) -> str:
    """What a command, or the block of Python, prints on standard output."""
    call = [sys.executable, "-m", "whichdevice", *shlex.split(COMMANDS.get(name, ""))]
    if name == PYTHON:
        page = (DOCS / "how-to" / "python.md").read_text(encoding="utf-8")
        call = [sys.executable, "-c", page.partition("```python\n")[2].partition("```")[0] + "print(answer)"]
    variables = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(PROJECT / "scripts")}
    return subprocess.run(call, cwd=PROJECT, env=variables, check=True, stdout=subprocess.PIPE, text=True).stdout


def block(name: str) -> str:
    """The command and its output for a page."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    if name == PYTHON:
        return f"```text\n{text}\n```"
    return f"```console\n$ whichdevice {COMMANDS[name]}\n```\n\n```text\n{text}\n```"


if __name__ == "__main__":
    main()
