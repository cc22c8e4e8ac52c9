"""Find what one step's time goes to by leaving parts out: input, host, compute, other. The last thing in a run.

Four things are timed in turn, so that drift affects all equally: the loop as it was timed; the same loop on one batch
in place; the same loop around a model of one weight; one step of that.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from whichdevice.base.events import Emitter, reason_line
from whichdevice.measure.backends.base import Backend, TrainingLoop
from whichdevice.measure.record import Breakdown, Request
from whichdevice.measure.timing import LONGEST_WINDOW, timed, window_seconds, window_steps
from whichdevice.models.batch_order import BatchOrder
from whichdevice.models.shapes import Tree, named, packed
from whichdevice.models.without_keras import NativeModel
from whichdevice.models.workloads.base import Arrays, Split, TrainingWorkload

BATCH_PARTS = ("inputs", "targets", "weights")


class OnOneBatch(TrainingWorkload):
    """The same training on one batch: nothing is chosen or converted. `fit` feeds it from the host all the same."""

    def __init__(self, inner: TrainingWorkload) -> None:
        super().__init__(inner.options)
        self._inner = inner
        self.metric, self.unit = inner.metric, inner.unit  # type: ignore[misc]  # of this instance's workload

    def split(self, train: Split, index: np.ndarray) -> Split:
        """The batch of the examples `index`, int32 [batch], as the only data."""
        from keras import ops

        parts = self._inner.batch(train.arrays, ops.convert_to_tensor(index))
        held = [named(part, name) for name, part in zip(BATCH_PARTS, parts, strict=False)]
        arrays = {key: ops.convert_to_numpy(leaf) for part in held for key, leaf in part.items()}
        return Split(arrays, train.examples, train.batch_size)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, ...]:
        """The one batch, whatever the index."""
        from keras import ops

        # A tensor even where the backend keeps arrays as variables; nothing is copied.
        flat = {key: ops.stop_gradient(array) for key, array in arrays.items()}
        parts = [packed(flat, name) for name in BATCH_PARTS]
        return tuple(part for place, part in enumerate(parts) if part is not None or place == 0)

    def own_step(self, model: Any) -> bool:
        """The workload's."""
        return self._inner.own_step(model)

    def outputs(self, model: Any) -> Tree:
        """The workload's."""
        return self._inner.outputs(model)

    def model(self) -> Any:
        """The workload's."""
        return self._inner.model()

    def loss(self, target: Any, prediction: Any) -> Any:
        """The workload's."""
        return self._inner.loss(target, prediction)

    def optimizer(self) -> Any:
        """The workload's."""
        return self._inner.optimizer()

    def quality(self, target: Any, prediction: Any) -> Any:
        """The workload's."""
        return self._inner.quality(target, prediction)

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The workload's."""
        return self._inner.splits(arrays)


class OneWeight(OnOneBatch):
    """A model of one weight and a batch of one number: what is left of a step is the loop around it."""

    def __init__(self, inner: TrainingWorkload) -> None:
        super().__init__(inner)
        self.metric = None  # type: ignore[misc]

    def split(self, train: Split, index: np.ndarray) -> Split:
        """One number."""
        one = np.ones((1, 1), np.float32)
        return Split({"inputs": one, "targets": one}, train.examples, train.batch_size)

    def own_step(self, model: Any) -> bool:
        """Return False: this is the loop around the step alone."""
        return False

    def model(self) -> Any:
        """Linear, without a bias."""
        import keras

        return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])

    def loss(self, target: Any, prediction: Any) -> Any:
        """The prediction's mean."""
        from keras import ops

        return ops.mean(ops.cast(prediction, "float32"))

    def optimizer(self) -> Any:
        """Plain gradient descent, too slow for the weight to run away."""
        import keras

        return keras.optimizers.SGD(1e-9)


SHARE = 0.5  # of the time budget of steady state
MIN_ROUNDS = 3
LONGEST = 6.0  # in time budgets: a step that would take longer to break down is nearly all compute
STEPS_OF_ONE_WEIGHT = 64  # at least: they are quick, and a difference of few would be noise
AS_TIMED, ONE_BATCH, ONE_WEIGHT, ONE_STEP = "as_timed", "one_batch", "one_weight", "one_weight_one_step"
METHOD = (
    "input: as timed, less the same loop on one batch in place. host: {host}. other: what a call of the loop "
    "costs whatever its steps, by the loop around one weight, over the {steps} steps of a call. compute: the rest"
)
HOST_BY_LOOP = "the same loop around a model of one weight"
HOST_BY_GAPS = "time in which no operation ran, by the framework's profiler, whose own work it holds"
Round = dict[str, tuple[int, float]]


def explain_step(
    backend: Backend,
    workload: TrainingWorkload,
    model: Any,
    loop: TrainingLoop,
    train: Split,
    order: BatchOrder,
    request: Request,
    step_time: float,
    emit: Emitter,
) -> None:
    """Send the record's `breakdown`; where it cannot be had, why. `loop` is of no use afterwards."""

    def broken_down() -> Breakdown:
        variants: dict[str, TrainingLoop] = {AS_TIMED: loop}
        for name, kind in ((ONE_BATCH, OnOneBatch), (ONE_WEIGHT, OneWeight)):
            variant = kind(workload)
            with backend.scope():
                trained = model if name == ONE_BATCH else variant.model()
            data = variant.split(train, order.take(1)[0])
            variants[name] = backend.training_loop(variant, trained, data, Split({}, 0))
        steps = steps_at_once(loop, request, step_time)
        for variant_loop in variants.values():
            for count in (1, min(steps, 2)):  # traced and compiled
                variant_loop.run(order.take(count))
        rounds = _rounds(variants, order, steps, request.seconds * SHARE)
        return split_up(rounds, backend.gap_share(partial(variants[ONE_BATCH].run, order.take(steps))))

    emit.progress("breaking a step down")
    try:
        if request.replicas > 1:
            breakdown = Breakdown(reason="several replicas: not broken down")
        elif isinstance(model, NativeModel):
            breakdown = Breakdown(reason="a model without Keras: not broken down")
        elif least_seconds(step_time) > LONGEST * request.seconds:
            breakdown = Breakdown(reason=f"a step takes {step_time:.2g} s, too long to break down in a run this short")
        else:
            breakdown = broken_down()
    except Exception as error:
        breakdown = Breakdown(reason="no memory left for it" if backend.is_out_of_memory(error) else reason_line(error))
    emit.part("breakdown", breakdown)


def least_seconds(step_time: float) -> float:
    """Return the least that rounds of long steps take: each variant compiled by 3 steps, then timed by 2."""
    return step_time * 2 * (3 + 2 * MIN_ROUNDS)


def steps_at_once(loop: TrainingLoop, request: Request, step_time: float) -> int:
    """Return the steps of a timed window of this run, at least two; the windows of `fit` are longer than a second."""
    window = min(window_seconds(request.seconds, loop.window_seconds), LONGEST_WINDOW)
    return max(2, window_steps(step_time, window))


def _rounds(variants: Mapping[str, TrainingLoop], order: BatchOrder, steps: int, budget: float) -> list[Round]:
    """Each variant in turn, until the budget is spent; at least MIN_ROUNDS times."""
    rounds: list[Round] = []
    spent = 0.0

    def seconds(loop: TrainingLoop, count: int) -> float:
        return timed(lambda asked: partial(loop.run, order.take(asked)), count)

    while len(rounds) < MIN_ROUNDS or spent < budget:
        counts = {name: max(steps, STEPS_OF_ONE_WEIGHT) if name == ONE_WEIGHT else steps for name in variants}
        timings = {name: (counts[name], seconds(loop, counts[name])) for name, loop in variants.items()}
        timings[ONE_STEP] = (1, seconds(variants[ONE_WEIGHT], 1))
        rounds.append(timings)
        spent += sum(took for _, took in timings.values())
    return rounds


def split_up(rounds: list[Round], gap_share: float | None = None) -> Breakdown:
    """Parts of a step, in seconds, that add up to the loop's own step time: the median of these rounds.

    `gap_share`: of the step on one batch, when no operation ran, where the framework can tell. A difference that
    noise makes negative is 0, with a note; compute takes what is left.
    """
    steps = rounds[0][AS_TIMED][0]
    seconds = {name: float(np.median([timings[name][1] for timings in rounds])) for name in rounds[0]}
    step_time = seconds[AS_TIMED] / steps
    each_step = (seconds[ONE_WEIGHT] - seconds[ONE_STEP]) / (rounds[0][ONE_WEIGHT][0] - 1)
    notes: list[str] = []

    def part(name: str, value: float, left: float) -> float:
        if value < 0:
            notes.append(f"{name} came out as {value:.2g} s, within noise: taken as 0")
        elif value > left:
            notes.append(f"{name} came out as {value:.2g} s, more than was left of the step: cut")
        return float(np.clip(value, 0, left))

    left = step_time
    host = part("host", each_step if gap_share is None else gap_share * seconds[ONE_BATCH] / steps, left)
    other = part("other", (seconds[ONE_STEP] - each_step) / steps, left := left - host)
    fed = part("input", (seconds[AS_TIMED] - seconds[ONE_BATCH]) / steps, left := left - other)
    return Breakdown(
        method=METHOD.format(host=HOST_BY_LOOP if gap_share is None else HOST_BY_GAPS, steps=steps),
        step_time=step_time,
        input=fed,
        host=host,
        compute=left - fed,
        other=other,
        rounds=rounds,
        notes=notes,
    )
