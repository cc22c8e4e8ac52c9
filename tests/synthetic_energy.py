"""Records with energy readings, for tests of what is made of them."""

from whichdevice.measure.record import Energy, MeteredPart, Record

WATTS = {"cpu": 100.0, "gpu": 400.0, "tpu": 200.0}
HOST_WATTS = 60.0


def metered(record: Record, watts: float | None = None) -> Record:
    """The record as if a meter had read so many watts over its steady windows and its epochs."""
    power = watts or WATTS[record.asked.kind]
    parts = {f"epoch {epoch.epoch}": (epoch.seconds + (epoch.validation_seconds or 0.0)) for epoch in record.epochs}
    parts["steady"] = record.steady.seconds

    def reading(power: float, name: str, update: float) -> Energy:
        found = {part: MeteredPart(joules=power * seconds, seconds=seconds) for part, seconds in parts.items()}
        return Energy(joules=sum(each.joules for each in found.values()), meter=name, update=update, parts=found)

    if record.asked.kind == "cpu":
        record.energy = reading(power, "RAPL of 1 processor package", 0.001)
    else:
        record.energy = reading(power, "NVML of 1 GPU", 0.1)
        record.energy.beside = {"host": reading(HOST_WATTS, "RAPL of 1 processor package", 0.001)}
    return record
