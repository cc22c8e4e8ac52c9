"""What trying a workload file showed, as lines for a person."""

from collections.abc import Mapping
from typing import Any

from whichdevice.checking.check import SMALL_BATCH, Tried
from whichdevice.host.memory import available_memory

FALLS = 0.001  # of the first loss, at least


def findings(module: str, tried: Mapping[str, Tried], topology: str | None, hints: tuple[str, ...]) -> list[str]:
    """Lines: what the model is, how it did on each backend, what the TPU compiler says."""
    backends = {name: each for name, each in tried.items() if name != topology}
    known = next((each.parts for each in backends.values() if "workload" in each.parts), None)
    lines = [module]
    if known is not None:
        lines += _facts(known)
    lines += [_line(name, _of_backend(each)) for name, each in backends.items()]
    if topology is not None:
        lines.append(_line("TPU", f"{topology}: {_of_compiler(tried[topology])}"))
    return lines + [_line("hint", hint) for hint in hints]


def _line(name: str, text: str) -> str:
    return f"  {name:11} {text}"


def _facts(parts: Mapping[str, Any]) -> list[str]:
    facts, model = parts["workload"], parts.get("model", {})
    batch_size, *inputs = facts["input_shape"]
    targets = facts["target_shape"][1:]
    forward, training = (model.get(name) for name in ("forward_flops", "training_flops"))
    work = facts["flops_counted"]
    if forward is not None and training is not None:
        work = f"{forward / 1e9:.4g} GFLOP an example forward, {training / 1e9:.4g} to train on it ({work})"
    return [
        _line(
            "model",
            f"{model.get('kind', 'model')} with {facts['parameters']:,} parameters: {tuple(inputs)} "
            f"{model.get('input', '')} to {tuple(targets)}",
        ),
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


def _of_backend(tried: Tried) -> str:
    losses = tried.parts.get("losses", {}).get("of_steps", [])
    if tried.status != "ok":
        return f"{tried.status.replace('_', ' ')}: {tried.reason}"
    if losses[-1] is None:
        return f"ok, but the loss is no number after {losses.index(None) + 1} steps: try a lower rate"
    what = f"loss {losses[0]:.4g} to {losses[-1]:.4g} in {len(losses)} steps on one batch of {SMALL_BATCH}"
    falls = losses[0] - losses[-1] > FALLS * abs(losses[0])
    return f"ok: {what}" if falls else f"ok, but the loss does not fall: {what}"


def _of_compiler(tried: Tried) -> str:
    facts, modelled = tried.parts.get("facts"), tried.parts.get("modelled")
    if facts is None or tried.status not in ("ok", "does_not_fit"):
        return f"{tried.status.replace('_', ' ')}: {tried.reason}"
    if tried.status == "does_not_fit":
        return f"does not fit: {tried.reason}"
    need = f"{facts['memory_needed'] / 2**30:.2f} of {facts['hbm_available'] / 2**30:.2f} GiB"
    if modelled is None:
        return f"fits: {need}"
    high = f" to {modelled['high'] * 1e3:.3g}" if modelled["high"] is not None else " or more"
    return f"fits: {need}; a step {modelled['low'] * 1e3:.3g}{high} ms on the device (modelled, nobody ran it)"
