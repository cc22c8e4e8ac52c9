"""A prediction service for the model of another workload: `{module: serve, model: mnist_cnn, clients: [1, 8]}`."""

from whichdevice.errors import StudyError
from whichdevice.workloads.base import Options, Recipe, ServedWorkload, TrainingWorkload


class Serve(ServedWorkload):
    """One request holds batch_size examples; a step is a request, and predictions are what throughput counts."""

    recipe = Recipe(source="no publication's; the request and its form are TensorFlow Serving's", batch_size=1)
    unit = "prediction"

    @property
    def served(self) -> TrainingWorkload:
        """The workload whose model is served, with this one's batch and number format."""
        from whichdevice.workloads import workload_class

        name = self.options.model
        if name is None:
            raise StudyError("serve: no model; say which, e.g. {module: serve, model: mnist_cnn}")
        found = workload_class(name)
        if not issubclass(found, TrainingWorkload):
            raise StudyError(f"serve: {name} has no model to serve")
        asked = self.options
        return found(Options(asked.batch_size, asked.precision, 1.0, asked.sequence_length, given=asked.given))
