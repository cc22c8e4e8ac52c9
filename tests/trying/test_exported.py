"""The exported model on ONNX Runtime, as it is served: timed in a process of its own."""

from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.measure.trying.exported import can_export, exported_steps
from whichdevice.models.loading import Model

MODELS = Path(__file__).parent.parent / "models"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # for the log


@pytest.mark.needs("torch")
@pytest.mark.needs("onnx runtime")
def test_a_model_is_exported_once_and_timed_at_each_batch() -> None:
    """A network of PyTorch, whose file has an open batch."""
    phases: list[str] = []
    steps = exported_steps(Model.read(str(MODELS / "small_mlp_torch.py")), (1, 16), {}, None, phases.append)
    assert set(steps) == {1, 16} and all(0 < seconds < 60 for seconds in steps.values())
    assert phases[-1] == "timing it on onnxruntime"


@pytest.mark.needs("torch")
@pytest.mark.needs("onnx runtime")
def test_what_cannot_be_exported_says_why_in_one_line(tmp_path: Path) -> None:
    """A model that fails where it is made."""
    text = (MODELS / "small_mlp_torch.py").read_text(encoding="utf-8")
    broken = tmp_path / "broken_torch.py"
    broken.write_text(
        text.replace("return nn.Sequential", "raise RuntimeError('no such layer')\n    return nn.Sequential")
    )
    with pytest.raises(StudyError, match="no such layer") as caught:
        exported_steps(Model.read(str(broken)), (1,), {}, None, lambda _: None)
    assert "\n" not in str(caught.value)


def test_without_onnx_runtime_nothing_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's framework is measured then."""
    monkeypatch.setattr("whichdevice.measure.trying.exported.find_spec", lambda name: None)
    assert not can_export(Model.read("mnist_cnn"))
