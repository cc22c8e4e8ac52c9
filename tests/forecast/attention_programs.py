"""Compiles a small decoder for one v5e, with and without a mask that Keras knows while tracing; run by its test."""

import json
import os

from whichdevice.forecast.targets import environment, topology_named

TOPOLOGY = "v5e-1x1"
SMALL = {"layers": 1, "width": 128, "heads": 2, "vocabulary": 256}


def main() -> None:
    """Print, for each, whether the program holds a kernel, and its operations against the analytic count."""
    os.environ.update(environment(topology_named(TOPOLOGY)))
    import jax

    from whichdevice.forecast.program import compile_step
    from whichdevice.forecast.seen_as import seen_as
    from whichdevice.forecast.steps import set_precision, step_of
    from whichdevice.records.compiled import CompileRequest

    found: dict[str, object] = {"before": jax.devices()[0].platform}
    with seen_as(topology_named(TOPOLOGY)):
        found["within"] = [jax.devices()[0].platform, jax.default_backend(), jax.device_count()]
    found["after"] = jax.devices()[0].platform
    set_precision("mixed_bfloat16")
    for name, options in (("plain", SMALL), ("kernel", {**SMALL, "kernel": True})):
        request = CompileRequest(
            topology=TOPOLOGY,
            workload="decoder",
            module="decoder",
            precision="mixed_bfloat16",
            batch_size=2,
            sequence_length=256,
            options=options,
        )
        step = step_of(request, 2, None)
        compiled = compile_step(step.function, step.arguments, TOPOLOGY, step.batch, step.donate, step.outputs)
        found[name] = ["tpu_custom_call" in compiled.text, compiled.flops / step.analytic_flops]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
