"""What trying a workload file showed, as lines for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from whichdevice.checking.check import SMALL_BATCH, Tried
from whichdevice.host.memory import available_memory

FALLS = 0.001  # of the first loss, at least


def findings(
    module: str, tried: Mapping[str, Tried], forecasts: Sequence[Mapping[str, Any]], hints: tuple[str, ...]
) -> list[str]:
    """Lines: what the model is, how it did on each backend, and what other devices would make of it."""
    known = next((each.parts for each in tried.values() if "workload" in each.parts), None)
    lines = [module]
    if known is not None:
        lines += _facts(known)
    lines += [_line(name, _of_backend(each)) for name, each in tried.items()]
    lines += [_line("forecast", f"{row['device']}: {_of_device(row)}") for row in forecasts]
    doubts = known.get("model", {}).get("doubts", []) if known is not None else []
    return lines + [_line("hint", hint) for hint in (*doubts, *hints)]


def _line(name: str, text: str) -> str:
    return f"  {name:11} {text}"


def _facts(parts: Mapping[str, Any]) -> list[str]:
    facts, model = parts["workload"], parts.get("model", {})
    batch_size = facts["input_shape"][0]
    forward, training = (model.get(name) for name in ("forward_flops", "training_flops"))
    work = facts["flops_counted"]
    if forward is not None and training is not None:
        work = f"{forward / 1e9:.4g} GFLOP an example forward, {training / 1e9:.4g} to train on it ({work})"
    takes, gives = (_joined(model.get(name) or []) for name in ("inputs", "outputs"))
    own = [f"{name}()" for name in model.get("step") or [] if name != "compile"]
    shown = [
        _line("model", f"{model.get('kind', 'model')} with {facts['parameters']:,} parameters: {takes} to {gives}"),
    ]
    if own:
        shown.append(_line("step", f"its own {' and '.join(own)}, as `fit` calls it"))
    if model.get("precision"):
        shown.append(_line("precision", model["precision"]))
    return [
        *shown,
        _line(
            "data", f"{facts['training_examples']:,} training and {facts['validation_examples']:,} validation examples"
        ),
        _line("work", work),
        _line(
            "memory",
            f"about {facts['estimated_memory'] / 1e9:.1f} GB on a CPU at batch {batch_size} (estimate); "
            f"{available_memory() / 1e9:.1f} GB are free here",
        ),
    ]


def _joined(parts: Sequence[str]) -> str:
    """`int32 (128,)`, or several: `token_ids int32 (128,) and padding_mask int32 (128,)`."""
    return " and ".join(parts) if parts else "nothing"


def _of_backend(tried: Tried) -> str:
    losses = tried.parts.get("losses", {}).get("of_steps", [])
    if tried.status != "ok":
        return f"{tried.status.replace('_', ' ')}: {tried.reason}"
    what = f"loss {losses[0]:.4g} to {losses[-1]:.4g} in {len(losses)} steps on one batch of {SMALL_BATCH}"
    falls = losses[0] - losses[-1] > FALLS * abs(losses[0])
    return f"ok: {what}" if falls else f"ok, but the loss does not fall: {what}"


def _of_device(row: Mapping[str, Any]) -> str:
    if row["step_seconds"] is None:
        return f"{row['status'].replace('_', ' ')}: {row['reason']}"
    step, low, high = (row[name] * 1e3 for name in ("step_seconds", "low_seconds", "high_seconds"))
    need = f"{row['memory_bytes'] / 1e9:.3g} of {row['memory_available_bytes'] / 1e9:.3g} GB"
    fits = "fits" if row["fits"] else "does not fit"
    return f"{fits}: {need}; a step of {row['batch']:,} in {step:.3g} ms ({low:.3g} to {high:.3g}; nobody ran it)"
