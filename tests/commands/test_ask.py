"""`ask`: a study of one model, answered through the tables of every study."""

import html
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answer.test_answer import FAST, MIDDLE, SMALL, SPOT, UNRENTED, answer
from answer.test_facts import SETTLE
from needs import require

from whichdevice.__main__ import main
from whichdevice.apps.commands.ask import gpus_needed, names_tpus, targets_of
from whichdevice.apps.questions.one_model import OneModel
from whichdevice.apps.questions.question import Question
from whichdevice.apps.questions.time_left import TimeLeft
from whichdevice.base.errors import StudyError
from whichdevice.base.terminal import Countdown
from whichdevice.decide import Row, Wants
from whichdevice.decide.words import notes
from whichdevice.forecast.products import CompiledRecord, CompileFacts, ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.measure.record import Cold, Generated, Record, Request, Steady, WorkloadFacts
from whichdevice.models.address import Address, read_address
from whichdevice.models.loading import Model
from whichdevice.models.script.found import Found, Keeps
from whichdevice.models.script.look import keep

MODEL = "docs/examples/my_model.py"
NOW = datetime(2026, 11, 28, tzinfo=UTC)
WORK = {
    "platform": "gpu",
    "items": [["product", "float32", 1e9, 1e6, 100, None, 1], ["memory", "", 0.0, 1e9, 5, None, 1]],
    "unknown_loops": 0,
    "unknown_calls": 0,
}


@pytest.fixture(autouse=True)
def _in_the_project(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_root)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Processes and compilers are played: `measured` are the records made, `asked` the programs; an L4 has none."""
    seen = SimpleNamespace(measured=[], asked=[], status="ok", needed=2e9, warm_up=[])

    def run_attempt(study: str, run: str, request: Request, *_: Any) -> Record:
        seen.measured.append(request)
        steady = Steady(windows=[(5, 0.5)] * 4, steps=20, seconds=2.0, step_time=0.1)
        steady.throughput = 10.0 * request.batch_size
        good = {"steady": steady, "generated": Generated(prompt=64, cache_bytes=1e6, prefill=steady)}
        bad = {"reason": "it needs 90 GB"}
        return Record(
            study=study, run=run, status=seen.status, asked=request, workload=WorkloadFacts(unit="product"),
            started=NOW, ended=NOW, cold=Cold(warm_up=seen.warm_up),
            **(good if seen.status == "ok" else bad),
        )  # fmt: skip

    def count_steps(
        requests: list[ProgramRequest], log: Path | None, on_record: Any, waits: bool
    ) -> list[CompiledRecord]:
        seen.asked += requests
        missing = max(seen.needed - 15e9, 0) or None
        facts = CompileFacts(
            memory=16e9, memory_available=15e9, memory_needed=seen.needed, memory_missing=missing, unit="image",
        )  # fmt: skip
        good = {"status": "does_not_fit" if missing else "ok", "work": WORK}
        bad = {"status": "unavailable", "reason": "XLA for CUDA is not installed here"}
        found = [
            CompiledRecord(
                asked=each,
                code_hash="0",
                **(
                    bad
                    if each.device == "L4"
                    else good | {"facts": facts.model_copy(update={"units_per_step": each.batch_size})}
                ),
            )
            for each in requests
        ]
        for number, record in enumerate(found):
            on_record(number, record)
        return found

    monkeypatch.setattr("whichdevice.apps.questions.here.run_attempt", run_attempt)
    monkeypatch.setattr("whichdevice.apps.questions.one_model.count_steps", count_steps)
    monkeypatch.chdir(tmp_path)
    return seen


def show_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("LINES", "60")  # what leaves the window is not drawn again


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The answer as plain data."""
    assert main(["ask", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("def build_model(", "broken.py: it is no Python: '(' was never closed (line 1)"),
        ("x = 1", "broken.py: it defines no function model(options)"),
    ],
)
def test_a_file_without_a_model_is_one_line(content, text, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text(content, encoding="utf-8")
    assert main(["ask", "broken.py"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(text)


def test_devices_are_names_with_commas_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert [target.device for target in targets_of(["A100", "T4"])] == ["A100 SXM 80GB", "T4"]
    assert capsys.readouterr().err.startswith("A100: the A100 SXM 80GB is taken; also: A100 PCIe 40GB")
    assert len(targets_of(["all"])) > 20 and len(targets_of(None)) == 13
    assert [target.label for target in targets_of(["T4", "TPU v5e"], (1, 4))] == [
        "T4", "4 × T4", "TPU v5e", "4 × TPU v5e"
    ]  # fmt: skip


def test_a_second_question_measures_nothing_that_the_first_one_did(played, project_root, tmp_path, capsys) -> None:
    question = [str(project_root / MODEL), "--devices", "T4,L4,v5e", "--examples", "1e6", "--epochs", "1"]
    found = asked(capsys, *question, "--html", "answer.html")
    rows = {row["device"]: row for row in found["rows"]}
    own = rows["this machine"]
    assert {"T4", "L4", "TPU v5e", "this machine"} <= set(rows)
    assert found["amount"]["words"] == "1 million products"
    assert (own["evidence"], own["processes"], len(played.measured)) == ("measured", 3, 3)
    assert rows["L4"]["why_not"] == "XLA for CUDA is not installed here" and rows["T4"]["memory_needed"] == 2e9
    assert rows["T4"]["step_time"] > 0 and rows["T4"]["usd_low"] < rows["T4"]["usd"] < rows["T4"]["usd_high"]
    page = (tmp_path / "answer.html").read_text(encoding="utf-8")
    assert found["words"][0] in html.unescape(page) and "T4" in page
    assert main(["ask", *question]) == 0
    shown = capsys.readouterr().out
    assert found["words"][0].split()[0] in shown and "This machine's time is of " in shown
    assert len(shown.splitlines()) <= 22 and max(map(len, shown.splitlines())) <= 100
    assert len(played.measured) == 3


def test_people_use_sixteen_bits_where_a_gpu_has_them(played, project_root, capsys) -> None:
    asked(capsys, str(project_root / MODEL), "--devices", "T4,A100,v5e,P100")
    formats = {request.device: request.precision for request in played.asked}
    assert formats == {
        "T4": "mixed_float16", "A100 SXM 80GB": "mixed_bfloat16", "TPU v5e": "mixed_bfloat16",
        "P100 SXM2": "float32",  # faster float16, but no units for its products
    }  # fmt: skip
    assert main(["ask", str(project_root / MODEL), "--devices", "T4,A100", "--precision", "tf32"]) == 0
    assert {"T4", "A100 SXM 80GB"} == {request.device for request in played.asked[-2:]}


def test_what_is_asked_reaches_the_compiler(played, project_root, capsys) -> None:
    options = ["--mode", "predict", "--option", "width=64", "--gpus", "8", "--batch", "64", "--largest"]
    asked(capsys, str(project_root / MODEL), "--devices", "T4", "--no-measuring", *options)
    (request,) = played.asked
    assert (request.mode, request.options, request.devices, request.batch_size) == ("predict", {"width": 64}, 8, 64)
    assert request.largest_batch and not played.measured


def test_generation_has_an_answer_for_one_sequence_and_one_for_the_batch(played, tmp_path, capsys) -> None:
    question = ["decoder", "--mode", "generate", "--batch", "4", "--devices", "T4"]
    one, four = asked(capsys, *question, "--html", "answer.html")
    assert (one["batch"], four["batch"], len(played.measured)) == (1, 4, 6)
    assert all(row["prefill_time"] > 0 for row in four["rows"] if row["step_time"])
    assert one["amount"]["words"] == "a million products"
    assert (tmp_path / "answer.html").read_text(encoding="utf-8").count('class="answer"') == 2


def test_processes_end_where_the_next_one_would_not_fit_in_the_budget_and_are_read_the_next_time(
    played: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whichdevice.apps.questions.here.BUDGET", -1.0)
    for kept in (False, True):
        assert main(["ask", "decoder", "--mode", "generate", "--batch", "4", "--devices", "T4"]) == 0
        assert ("This machine's time is of " in capsys.readouterr().out) == kept
    assert [request.batch_size for request in played.measured] == [1, 4]


def test_a_process_that_its_limit_ends_counts_once_if_it_timed_a_window(played, project_root, monkeypatch, capsys):
    played.status, played.warm_up = "timed_out", [(2, 8.0)]
    own = asked(capsys, str(project_root / MODEL), "--devices", "T4")["rows"]
    own = next(row for row in own if row["device"] == "this machine")
    assert (own["evidence"], own["step_time"], own["processes"], own["rough"]) == ("measured", 4.0, 1, True)


@pytest.mark.parametrize(
    ("status", "evidence"), [("out_of_memory", "does not fit"), ("refused", "does not fit"), ("timed_out", "no time")]
)
def test_what_did_not_run_here_is_a_row_that_says_why(status, evidence, played, project_root, capsys) -> None:
    played.status = status
    found = asked(capsys, str(project_root / MODEL), "--devices", "T4")
    own = next(row for row in found["rows"] if row["device"] == "this machine")
    assert own["evidence"] == evidence and own["step_time"] is None and found["pick"] == "T4, free"
    assert len(played.measured) == 1


def test_a_model_that_fails_or_fits_nowhere_is_one_line(played, project_root, capsys) -> None:
    played.status = "failed"
    assert main(["ask", str(project_root / MODEL), "--devices", "L4"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("it needs 90 GB")
    found = asked(capsys, str(project_root / MODEL), "--devices", "T4")  # a program of it compiled
    own = next(row for row in found["rows"] if row["device"] == "this machine")
    assert (own["why_not"], found["pick"]) == ("it needs 90 GB", "T4, free")
    played.status = "out_of_memory"
    assert main(["ask", str(project_root / MODEL), "--devices", "L4"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        "No device is left for my_model: this machine: too small; L4: XLA for CUDA is not installed here."
    )


def test_a_terminal_shows_a_first_answer_from_forecasts_and_draws_the_final_one_over_it(
    played: SimpleNamespace, project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_in_a_terminal(monkeypatch)
    assert main(["ask", str(project_root / MODEL), "--devices", "T4", "--examples", "1000"]) == 0
    first, final = capsys.readouterr().out.split("\033[J")
    assert "A first answer, from forecasts alone." in first and "Use a free T4" in first
    assert "Use this machine" in final and f"\033[{len(first.splitlines()) - 1}A" in first


def test_rows_are_drawn_as_programs_are_known(played, project_root, monkeypatch, capsys) -> None:
    show_in_a_terminal(monkeypatch)
    monkeypatch.setattr("whichdevice.apps.questions.one_model.SHOWN_EVERY", -1.0)
    assert main(["ask", str(project_root / MODEL), "--devices", "A100,T4,H100", "--no-measuring"]) == 0
    first, last = capsys.readouterr().out.split("\033[J")
    assert "A100 SXM 80GB" in first and "H100 SXM" not in first and "H100 SXM" in last
    assert "A first answer, from forecasts alone." in first and "A first answer" not in last


@pytest.mark.parametrize(
    ("name", "gpus", "batch"),
    [("hf:gpt2", (1,), 8), ("hf:gpt2", (2, 8), 64), ("hf:gpt2", (64,), 64), ("resnet50", (8,), 64)],
)
def test_each_gpu_has_the_usual_batch_of_a_model_by_its_name_alone(name, gpus, batch) -> None:
    assert Question(Model.read(name), gpus=gpus).batch_size() == batch
    assert Question(Model.read(name), gpus=gpus, batch=24).batch_size() == 24


def test_the_number_of_gpus_is_a_choice_where_one_is_too_few() -> None:
    """A PyTorch model that no card holds, or that none trains in time; the batch is shared out evenly."""

    def needed(model: str, wants: Wants, *rows: Row, keeps: Keeps = "batch", **more: Any) -> list[int]:
        named = Model(Address(model, "hub" if model.startswith("hf:") else "file"))
        return gpus_needed(Question(named, replace(wants, **more)), [answer(*rows, wants=wants, fixed=keeps)])

    enough, late, small = Wants(examples=1e5), Wants(examples=1e10), replace(SMALL, card="T4")
    assert needed("net.py", enough, FAST, MIDDLE, small) == []
    assert needed("net.py", enough, UNRENTED) == []  # nobody rents it: it is not late
    spot = replace(SPOT, card="L40S")
    assert needed("net.py", enough, FAST, SPOT, spot, small, MIDDLE, replace(small, card="V100")) == [1, 2, 4]
    assert needed("net.py", enough, FAST, small) == [1, 2, 4]  # half of them are too small: a large model
    assert needed("net.py", enough, small) == needed("net.py", late, FAST) == [1, 2, 4]  # of a batch of 100
    assert needed("hf:gpt2", late, FAST) == [1, 2, 4, 8, 16, 32, 64]
    assert needed("hf:gpt2", late, FAST, steps=10) == [1, 2, 4]
    assert needed("hf:gpt2", late, FAST, only_free=True) == []
    assert needed("hf:gpt2", late, replace(FAST, fits=None)) == []  # nothing is known of one: more say no more
    assert needed("train.py", late, FAST, keeps="examples") == [1, 2, 4, 8]  # with a batch on each
    assert needed("train.py", late, FAST, keeps="steps") == []  # as many steps end no earlier on more of them
    assert needed("train.py", enough, small, keeps="steps") == [8]
    together = [each.label for each in targets_of(["RTX 4090", "L4"], [8, 16], "eager") if each.rented_together]
    assert together == ["8 × RTX 4090", "8 × L4", "16 × L4"]


def test_devices_are_asked_about_in_the_numbers_that_are_theirs(played: SimpleNamespace, project_root: Path) -> None:
    """A study has all devices in all numbers: `64 × RTX 4090` was in the answer, which nobody rents out."""
    targets = [find_target("RTX 4090"), find_target("L4", 8)]
    OneModel(Question(Model.read(str(project_root / MODEL)), batch=64), targets, (1, 8)).forecast()
    assert {(request.device, request.devices) for request in played.asked} == {("RTX 4090", 1), ("L4", 8)}


def test_which_card_a_name_means_is_printed_once_where_several_are_tried(played, project_root, capsys) -> None:
    require("torch")
    model = str(project_root / "tests/models/small_mlp_torch.py")
    assert main(["ask", model, "--devices", "A100", "--no-measuring", "--deadline", "1s"]) == 0
    assert capsys.readouterr().err.count("A100: the A100 SXM 80GB is taken") == 1
    assert {each.devices for each in played.asked} == {1, 2, 4, 8}
    played.needed = 20e9  # a T4 has no bfloat16, and is all that is asked about
    assert main(["ask", model, "--devices", "T4", "--no-measuring"]) == 0
    assert capsys.readouterr().out.count("fits none of these devices") == 1


def test_the_time_left_never_rises_by_more_than_a_fifth() -> None:
    left, shown = TimeLeft(), []
    for guess in (100.0, 60.0, 900.0, 300.0, 50.0, 10.0, 40.0):
        left.forecasts = SimpleNamespace(left=guess)  # type: ignore[assignment]
        left.processes = Countdown(0, 1.0)
        shown.append(left.words())
    assert shown == [
        "about 2 min left", "about 60 s left", "more than 72 s left", "more than 72 s left", "about 50 s left",
        "about 10 s left", "more than 12 s left",
    ]  # fmt: skip


def test_a_wrong_mode_has_one_line_in_python_too() -> None:
    with pytest.raises(StudyError, match="mode predict: matmul is a single operation"):
        OneModel(Question(Model.read("matmul"), mode="predict"), [])


PRINTED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # the work that is asked about, its device, and the workload that is measured on the rented machine
    ({"module": MODEL, "batch": 48}, {"card": "RTX 4090"}, {"batch_size": 48, "mode": "train"}),
    ({"module": MODEL, "mode": "predict", "options": {"width": 64}}, {"card": "T4", "precision": "float32"},
     {"mode": "predict", "options": {"width": 64}, "precision": ["float32"]}),
    ({"module": "decoder", "mode": "generate", "batch": 4, "sequence_length": 32}, {"card": "A100 SXM 80GB"},
     {"mode": "generate", "batch_size": 4, "sequence_length": 32, "backend": "jax"}),
    ({"module": "shakespeare_lstm", "sequence_length": 50}, {"card": "4 × TPU v5e", "target": "v5e-2x2",
     "precision": "mixed_bfloat16", "usd_per_hour": 4.8}, {"sequence_length": 50, "precision": ["mixed_bfloat16"]}),
    ({"module": "my train.py -- --name 'a b'", "batch": 8}, {"card": "L4"},
     {"module": "my train.py -- --name 'a b'", "batch_size": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("step", "row", "measured"), PRINTED)
def test_the_command_that_settles_it_measures_the_same_step(
    step: dict[str, Any], row: dict[str, Any], measured: dict[str, Any], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, project_root: Path, tmp_path: Path,
) -> None:  # fmt: skip
    """The printed line goes through the shell's rules and the real parser, up to SkyPilot's task."""
    work = tmp_path / "checkout"
    (work / "envs").mkdir(parents=True)
    for name in ("envs/rented.sh", MODEL):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text((project_root / name).read_text())
    (work / "my train.py").write_text("import keras\nkeras.Model().fit()\n")
    monkeypatch.chdir(work)
    keep(read_address("my train.py -- --name 'a b'"), Found("keras", 8, 40, 3))
    rows = replace(SETTLE[0], **row), replace(SETTLE[1], usd_per_hour=row.get("usd_per_hour", 1.0))
    found = answer(*rows, wants=Wants(examples=3e9, deadline=9e9), **step)
    [line] = [line for line in notes(found) if "whichdevice rent" in line]
    command = shlex.split(line[line.index("whichdevice rent") :])
    assert main(["rent", "--dry-run", *command[2:]]) == 0, capsys.readouterr().err
    script = json.loads(capsys.readouterr().out)["run"]
    study = json.loads(shlex.split(script.splitlines()[0].partition(" >")[0])[2])
    [workload] = study["workloads"].values()
    assert {name: workload[name] for name in measured} == measured
    assert workload["precision"] == [rows[0].precision] and workload["module"] == step["module"]


@pytest.mark.parametrize(("devices", "named"), [(None, False), ("T4,L4", False), ("T4,tpu", True), ("v5e-2x2", True)])
def test_a_tpu_is_a_choice_for_pytorch_where_it_is_named(devices: str | None, named: bool) -> None:
    assert names_tpus(devices) == named


def test_rent_takes_a_device_by_its_name_and_people_use_sixteen_bits(capsys: pytest.CaptureFixture[str]) -> None:
    for name, accelerator in (("RTX 4090", "RTX4090:1"), ("v5e-2x2", "tpu-v5litepod-4"), ("A100", "A100-80GB-SXM:1")):
        assert main(["rent", MODEL, "--on", name, "--max-usd", "40", "--dry-run"]) == 0
        task = json.loads(capsys.readouterr().out)
        assert task["resources"]["accelerators"] == accelerator and "mixed_bfloat16" in task["run"]


EACH = Found("torch", 8, 320, 3, asks=4, keeps="examples")
PROGRAMS: dict[str, tuple[Found, list[str], list[tuple[int, int]]]] = {
    "as many GPUs as it asks for": (EACH, [], [(4, 32)]),
    "their number is not shown": (replace(EACH, asks=None), [], [(1, 8)]),
    "the user's numbers": (EACH, ["--gpus", "1,8"], [(1, 8), (8, 64)]),
    "as many as a machine has": (replace(EACH, asks=6), [], [(4, 32)]),
    "free ones are one GPU": (EACH, ["--only", "free"], [(1, 8)]),
    "the user's batch is shared": (EACH, ["--gpus", "4", "--batch", "32"], [(4, 32)]),
    "its GPUs share a batch": (replace(EACH, keeps="batch"), ["--gpus", "1,4"], [(1, 8), (4, 8)]),
    "steps are kept": (replace(EACH, keeps="steps"), ["--gpus", "2,4"], [(2, 16), (4, 32)]),
}


@pytest.mark.needs("torch")
def test_a_script_in_a_folder_that_cannot_be_written_is_one_line_at_once(tmp_path, monkeypatch, capsys) -> None:
    """A file stands where the folder would be, which stops a superuser, too."""
    monkeypatch.chdir(tmp_path)
    Path("results").touch()
    Path("train.py").write_text("import torch\ntorch.optim.SGD([]).step()\n")
    assert main(["ask", "train.py", "--devices", "T4"]) == 2
    assert capsys.readouterr().err.startswith(f"train.py: {tmp_path} cannot be written")


@pytest.mark.needs("torch")
@pytest.mark.parametrize("case", PROGRAMS)
def test_each_gpu_of_a_script_takes_its_batch(case, played, tmp_path) -> None:
    """GPUs, and examples of a step on all of them, of the programs that are forecast."""
    found, options, programs = PROGRAMS[case]
    (tmp_path / "train.py").write_text("import torch\ntorch.optim.SGD([]).step()\n")
    keep(read_address("train.py"), found)
    assert main(["ask", "train.py", "--no-measuring", "--devices", "T4", "--json", *options]) == 0
    assert [(request.devices, request.batch_size) for request in played.asked] == programs


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("keeps", "options", "amounts"),
    [
        ("examples", [], [960]),
        ("steps", [], [2 * 960, 4 * 960]),
        ("steps", ["--examples", "500"], [1500]),
        ("examples", ["--steps", "10"], [2 * 80, 4 * 80]),
    ],
)
def test_numbers_of_gpus_are_compared_where_they_see_the_same_examples(
    keeps: Keeps, options: list[str], amounts: list[float], played: SimpleNamespace, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Where each makes as many steps, however many they are, each number has an answer."""
    (tmp_path / "train.py").write_text("import torch\ntorch.optim.SGD([]).step()\n")
    keep(read_address("train.py"), replace(EACH, keeps=keeps))
    plain = asked(capsys, "train.py", "--no-measuring", "--devices", "T4", "--gpus", "2,4", *options)
    answers = plain if isinstance(plain, list) else [plain]
    assert [answer["amount"]["units"] for answer in answers] == [pytest.approx(units) for units in amounts]
    shown = [{row["devices"]: row["batch"] for row in answer["rows"]} for answer in answers]
    assert shown == ([{2: 16, 4: 32}] if len(amounts) == 1 else [{2: 16}, {4: 32}])


def test_a_script_is_answered_as_its_whole_training_in_its_own_precision(played, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "train.py").write_text("import keras\nkeras.Model().fit()\n")
    found = Found("keras", 8, 40, 3)
    monkeypatch.setattr("whichdevice.models.script.look.probe", lambda address: keep(address, found))
    call = ["ask", "train.py", "--no-measuring", "--devices", "T4,A100 SXM 80GB", "--json", "--", "--lr", "1"]
    assert main(call) == 0
    first = capsys.readouterr()
    assert first.err.startswith("train.py runs until its training starts: it may write and download until then. N")
    plain = json.loads(first.out)
    assert plain["amount"]["words"] == "40 images × 3 epochs" and plain["batch"] == 8
    assert [(each.device, each.precision) for each in played.asked] == [("T4", "float32"), ("A100 SXM 80GB", "tf32")]
    assert main(call) == 0
    assert "is run until" not in capsys.readouterr().err
    assert main([*call[:2], "--batch", "9", *call[2:]]) == 2
    refused = "--batch: the batch is the script's, 8: change it there, or by its arguments\n"
    assert capsys.readouterr().err == refused


UNUSED = ("pandas", "scipy", "matplotlib", "snakemake", "jax", "keras", "tensorflow", "torch", "whichdevice.study")
ASKS = """
import sys
from whichdevice.__main__ import main
main(["ask", "mnist_official", "--no-measuring", "--json"])
print(*sorted(set(sys.modules) & set(sys.argv[1:])), file=sys.stderr)
"""


def test_a_known_name_is_answered_without_a_framework_a_table_or_a_config(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKS, *UNUSED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["pick"] and done.stderr.splitlines()[-1] == ""
    assert not list(tmp_path.iterdir())
