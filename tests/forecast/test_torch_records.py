"""PyTorch files to compiled records: traced once, memory, changes, and errors in one line."""

from functools import partial
from pathlib import Path

import pytest
from beside import beside
from needs import require

require("torch")
from whichdevice.apps.commands.ask import targets_of
from whichdevice.apps.questions.one_model import OneModel
from whichdevice.apps.questions.question import Here, Question
from whichdevice.base.errors import StudyError
from whichdevice.decide import Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.facts import running
from whichdevice.decide.rows import FORECAST, AskedWork, Row, estimated
from whichdevice.forecast.answer import forecast_of
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.memory import FUSED, Plan, checkpointed, need
from whichdevice.forecast.torch.records import COMPILED, Traced, one_trace
from whichdevice.forecast.torch.trace import WITHOUT_VALUES, trace_step
from whichdevice.measure.run_end import RefusedError, built_within
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

FILE = BESIDE["file"]


def request(folder, device="T4", *, width=256, forward="pass", precision="float32", batch_size=8, **others):
    path = folder / "net.py"
    path.write_text(FILE.replace("WIDTH", str(width)).replace("FORWARD", forward), encoding="utf-8")
    values = {"device": device, "workload": "w", "module": str(path), "precision": precision, "batch_size": batch_size}
    return ProgramRequest.model_validate({**values, **others})


def record_of(asked):
    return Traced(asked).record(asked, find_target(asked.device, asked.devices))


def test_every_gpu_and_tpu_has_a_record(tmp_path, working_folder):
    asked = [request(tmp_path, device) for device in ("T4", "MI210", "TPU v5e")]
    records = count_steps(asked)
    assert [record.status for record in records] == ["ok", "ok", "ok"]
    row, on_tpu = forecast_of(records[0]), forecast_of(records[2])
    assert on_tpu.software == "PyTorch on TPU" and any("torch_xla" in note for note in on_tpu.step_notes)
    assert on_tpu.step_time_high / on_tpu.step_time_low > row.step_time_high / row.step_time_low
    layers, head = 8 * 2 * 8 * 256 * 256, 2 * 8 * 256 * 4
    assert row.operations == 3 * (layers + head) - layers / 8
    assert row.device_time > forecast_of(records[1]).device_time > 0
    assert row.optimizer == 2 * row.gradients


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("x = x.double().float()", "float64 has no TPU form; cast the model and its data to float32"),
        ("torch.linalg.eigvals(x[:, :8])", "linalg_eig has no TPU form"),
    ],
)
def test_what_has_no_tpu_form_is_named_and_runs_on_a_gpu(tmp_path, working_folder, forward, reason):
    with pytest.raises(StudyError, match=reason):
        record_of(request(tmp_path, "TPU v5e", forward=forward))
    assert record_of(request(tmp_path, "T4", forward=forward))[0] == "ok"


def test_several_gpus_divide_the_batch_and_add_up_gradients(tmp_path):
    one, two = (record_of(request(tmp_path, "A100 SXM 40GB", devices=count)) for count in (1, 2))
    assert two[2].operations == one[2].operations / 2
    assert two[2].collectives["all"].nbytes == one[2].memory_parts["gradients"]


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_a_step_that_does_not_fit_says_what_to_change(tmp_path, precision):
    status, reason, facts, _ = record_of(request(tmp_path, width=10240, precision=precision))
    assert status == "does_not_fit" and "GiB too much" in reason
    alone = {each.name: each for each in facts.changes if " and " not in each.name}
    assert {"16-bit weights", FUSED, "an 8-bit optimiser"} <= alone.keys()
    assert alone["an 8-bit optimiser"].memory_needed < alone[FUSED].memory_needed < facts.memory_needed
    assert all(0 < each.time < 2 for each in facts.changes)
    assert min(each.memory_needed for each in facts.changes) <= facts.memory_available


@pytest.mark.parametrize("device", ["A100 SXM 80GB", "TPU v5e"])
def test_a_step_in_tf32_has_the_trace_of_float32_and_its_own_label(tmp_path, device):
    asked = request(tmp_path, device, precision="tf32")
    full = one_trace(asked)
    assert full == one_trace(request(tmp_path, device))
    shared, alone = (Traced(of).record(asked, find_target(device)) for of in (full, asked))
    assert shared == alone and {item.precision for item in shared[3].items if item.operations} == {"tf32"}


def test_checkpointing_takes_less_where_activations_are_many(tmp_path):
    asked = request(tmp_path, batch_size=2**15)
    plan = Traced(asked).plan
    assert need(plan.trace(2**15, ("gradient checkpointing",))) < 0.8 * need(plan.trace(2**15))


def test_the_largest_batch_is_confirmed_by_a_trace(tmp_path):
    asked = request(tmp_path, largest_batch=True)
    _, _, facts, _ = record_of(asked)
    plan: Plan = Traced(asked).plan
    assert facts.memory_available * 0.9 < need(plan.trace(facts.largest_batch)) <= facts.memory_available


def test_devices_that_are_too_small_share_the_traces_that_find_their_largest_batch(tmp_path, monkeypatch):
    traced, sizes = Traced(request(tmp_path, batch_size=2**23)), []
    monkeypatch.setattr("whichdevice.forecast.torch.trace.trace_step", partial(counted, sizes))
    found = {}
    for device in ("L4", "RTX 3090", "RTX 5090", "A100 40GB PCIe"):
        _, _, found[device], _ = traced.record(request(tmp_path, device, batch_size=2**23), find_target(device))
    assert all(facts.largest_batch for facts in found.values())
    assert len(sizes) == len(set(sizes)) and {size for _, size in sizes} <= {2**23 >> halves for halves in range(4)}
    assert need(traced.trace(found["L4"].largest_batch)) == pytest.approx(found["L4"].memory_available, rel=0.02)


def counted(sizes, step, size):
    sizes.append((step, size))
    return trace_step(step, size)


def test_a_large_step_that_reads_a_value_in_its_first_line_is_never_computed_here(tmp_path):
    """Its peak until then is small."""
    kinds = tmp_path / "kinds"
    write = f"open({str(kinds)!r}, 'a').write(type(x).__name__ + ' '); int(x.sum())"
    trace = Traced(request(tmp_path, batch_size=2**17, forward=write)).trace(2**17)
    assert WITHOUT_VALUES in trace.notes and trace.memory["peak"] > 1e9
    assert {*kinds.read_text(encoding="utf-8").split()} == {"FakeTensor"}


OWN = 'with torch.autocast("cuda", dtype=torch.bfloat16): return self.head(self.blocks(x))'


def test_the_files_own_autocast_is_never_float32_in_silence(tmp_path):
    _, _, facts, work = record_of(request(tmp_path, forward=OWN))
    assert {item.precision for item in work.items if item.operations} == {"half"}
    assert "mixed_bfloat16" in facts.notes[0]
    with pytest.raises(StudyError, match="state it: --precision mixed_bfloat16"):
        record_of(request(tmp_path, forward=OWN.replace("torch.bfloat16", "getattr(torch, 'bfloat' + '16')")))


@pytest.mark.parametrize(
    ("line", "software"),
    [
        ("return torch.compile(Net())", "torch.compile"),
        ("net = Net(); net.compile(); return net", "torch.compile"),
        ("import re; re.compile('a'); return Net()", "eager"),
    ],
)
def test_a_file_that_calls_torch_compile_is_forecast_with_its_software(tmp_path, line, software):
    asked = request(tmp_path)
    path = Path(asked.module)
    path.write_text(path.read_text().replace("return Net()", line), encoding="utf-8")
    _, _, facts, work = record_of(asked)
    assert work.software == software and (COMPILED[0] in facts.notes) == (software != "eager")
    assert {item.kind for item in work.items} >= {"product", "optimizer"}


ON_CUDA = "x = x.cuda().to('cuda'); x = x + torch.ones(1, device=torch.device('cuda'))"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("return Net()", "return Net().to('cuda')"), "CUDA"),
        (('"AdamW"', '"AdamW8bit"'), "an 8-bit optimiser needs a GPU"),
        (('"AdamW"', '"AdamW"\nMETHOD = "qlora"'), "4-bit weights need a GPU"),
    ],
)
def test_what_runs_on_a_gpu_alone_is_forecast_and_not_measured_here(change, reason, tmp_path, working_folder):
    path = Path(request(tmp_path, forward=ON_CUDA).module)
    path.write_text(path.read_text().replace(*change), encoding="utf-8")
    asked = OneModel(Question(Model.read(str(path)), Wants(examples=1e6)), targets_of(["T4"], software="eager"))
    asked.forecast()
    asked.measure()
    here = asked.here
    assert not here.cells and reason in here.unmeasured.reason and here.unmeasured.step_time is None
    (found,) = asked.answers()
    assert found.pick.device == "T4, free"


def test_a_step_that_cannot_be_traced_names_the_line(tmp_path):
    with pytest.raises(StudyError, match=r"net\.py: a step cannot be traced: RuntimeError: .*\(line 18\)"):
        Traced(request(tmp_path, forward="x = x @ x"))


def test_a_large_model_is_not_made_before_it_is_known_to_fit(tmp_path):
    workload = Model.read(request(tmp_path, width=2**15).module).workload(Options(1))
    with pytest.raises(RefusedError, match="8,590,327,812 weights"):
        built_within(16e9, workload.model)


@pytest.mark.parametrize(("name", "seconds_here", "most_kernels"), [("mlp", 1e-3, 60), ("lstm", 0.06, 60)])
def test_a_small_model_stays_here_or_takes_what_is_free(name, seconds_here, most_kernels, working_folder):
    path = Path(__file__).parents[1] / "models" / f"small_{name}_torch.py"
    wants = Wants(examples=60_000, epochs=10)
    targets = targets_of(["T4", "RTX 4090", "H100 SXM"], software="eager")
    asked = OneModel(Question(Model.read(str(path)), wants), targets)
    asked.here = Here(unmeasured=estimated("this machine", seconds_here, 1e9, 25e9))
    asked.forecast()
    (found,) = asked.answers()
    assert found.pick.device in ("this machine", "T4, free")
    others = [option for option in found.options if not option.row.is_here]
    assert len(others) >= 4 and all(option.row.host_time > 2e-4 for option in others)
    assert all(option.row.step_time >= option.row.host_time for option in others)
    step = record_of(ProgramRequest(device="T4", workload="w", module=str(path), precision="float32", batch_size=64))[3]
    assert 10 < step.sent < most_kernels


def deep(folder, blocks):
    """A request for the same net with so many blocks."""
    asked = request(folder, width=512)
    path = Path(asked.module)
    path.write_text(path.read_text(encoding="utf-8").replace("range(4)", f"range({blocks})"), encoding="utf-8")
    return asked


def test_changes_of_a_deep_model_are_those_of_all_of_its_blocks(tmp_path):
    plan = Traced(deep(tmp_path, 24)).plan
    light = plan.trace(8, ("gradient checkpointing",))
    assert need(light) == pytest.approx(need(trace_step(checkpointed(plan.step), 8)), rel=0.01)


def test_a_model_of_few_or_different_blocks_has_no_draft(tmp_path):
    asked = deep(tmp_path, 24)
    path = Path(asked.module)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("nn.Tanh()) for _ in", "nn.Tanh() if _ else nn.ReLU()) for _ in"), encoding="utf-8")
    assert Traced(asked).plan.shallow is None
    (tmp_path / "few").mkdir()
    assert Traced(request(tmp_path / "few")).plan.shallow is None


def named_by(asked, facts):
    """Return how to run the step with no end of data."""
    on_gpu = Row(
        "T4", "gpu", FORECAST, step_time=1.0, usd_per_hour=1.0, pass_batch=facts.pass_batch,
        passes=tuple(one.model_dump() for one in facts.passes),
    )  # fmt: skip
    size = asked.batch_size
    work = AskedWork("net", asked.module, "train", size, None, "example", float(size), None, None, (on_gpu,))
    return running(decide(work, Wants(), Amount(1e9)))


@pytest.mark.parametrize("name", ["small_mlp_torch", "small_lstm_torch"])
def test_the_named_batch_is_as_fast_as_any_that_fits(tmp_path, name):
    module = str(Path(__file__).parents[1] / "models" / f"{name}.py")
    asked = request(tmp_path, batch_size=8, largest_batch=True).model_copy(update={"module": module})
    traced, target = Traced(asked), find_target("T4")
    _, _, facts, _ = traced.record(asked, target)
    sizes = [one.batch for one in facts.passes if not one.checkpointing]
    assert sizes[:3] == [1, 4, 16] and facts.pass_batch == 8
    named, largest = named_by(asked, facts), max(sizes)

    def time_of(size):
        return forecast_step(traced.trace(size).work, target.row, "train").seconds / size

    others = [time_of(size) for size in (8, 3000, largest // 7, largest // 3, largest)]
    assert time_of(named["batch"]) <= 1.03 * min(others)
    assert named["time"] == pytest.approx(time_of(named["batch"]) / time_of(8), rel=0.02)
    assert need(traced.trace(int(1.15 * largest))) > facts.memory_available * 0.96
