"""Runs a script, and prints what it shows: `python recorded_script.py SCRIPT SECONDS`, of a batch that is long."""

import json
import os
import sys
from pathlib import Path

from whichdevice.base.errors import StudyError
from whichdevice.models.script import watch_torch
from whichdevice.models.script.run import ScriptRun

watch_torch.LONG = float(sys.argv[2])
try:
    script = ScriptRun(Path(sys.argv[1])).result([])
except StudyError as error:
    shown = {"error": str(error)}
else:
    found, recorded = script.found, script.recorded
    shown = {
        "batch": found.batch_size, "examples": found.examples, "epochs": found.epochs, "unknown": found.unknown,
        "steps": recorded.steps, "operations": recorded.trace.work.operations, "notes": found.notes,
        "kernels": recorded.trace.work.kernels,
    }  # fmt: skip
    if recorded.other:
        items = recorded.other[1]["work"]["items"]
        shown["other"] = (recorded.other[0], sum(item[2] * item[4] for item in items))
print(json.dumps(shown), flush=True)
os._exit(0)
