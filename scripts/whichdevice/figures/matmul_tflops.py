"""Speed of matrix products, cold and warm, by size and precision."""

from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults

TITLE = "Matrix products: TFLOP/s by size, cold and warm"
CAPTION = (
    "Products of two N×N matrices, counted as 2·N³ operations each. Filled markers: steady state. Hollow markers: "
    "the first product, which includes tracing and compilation. One panel per device."
)
CATEGORY = "Speed"
COLUMNS = 2


def draw(study: StudyResults) -> Figure:
    """One panel per device, one colour and marker per precision and backend; both axes logarithmic."""
    cells = study.measured[study.measured["tflops"].notna() & (study.measured["unit"] == "product")]
    if cells.empty:
        return style.empty(study, "No matrix product was measured.")
    devices = [name for name in study.devices if name in set(cells["device"])]
    across = min(COLUMNS, len(devices))
    figure = style.new_figure(max(6.2, 3.7 * across + 1.6), 3.2 * -(-len(devices) // across) + 0.9)
    panels = grid_of(figure, len(devices), across, sharey=True)
    kinds = cells[["backend", "precision", "workload"]].drop_duplicates()
    names = style.labels(kinds.assign(device=""), ["device", "backend", "precision", "workload"])
    looks = dict(zip(kinds.itertuples(index=False, name=None), names, strict=True))
    for panel, device in zip(panels, devices, strict=True):
        own = cells[cells["device"] == device]
        for place, (key, label) in enumerate(looks.items()):
            part = own[(own[["backend", "precision", "workload"]] == list(key)).all(axis=1)].sort_values("batch_size")
            colour, marker = style.CYCLE[place % 7], style.MARKERS[place % 9]
            name = label.strip() or str(key[1])
            x = part["batch_size"].to_numpy(float)
            panel.plot(x, part["tflops"], color=colour, marker=marker, label=f"{name}, warm")
            panel.plot(
                x, part["cold_tflops"], color=colour, marker=marker, mfc="white", ls="--", lw=1, label=f"{name}, cold"
            )
        style.batch_axis(panel, own["batch_size"])
        panel.set_title(device, parse_math=False)
        panel.set_xlabel("N")
        panel.set_ylabel("TFLOP/s" if panel in panels[::across] else "")
    style.log_axis(panels[0], "y", [*cells["tflops"], *cells["cold_tflops"]])
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside right center")
    counts = sorted({int(n) for n in cells["n_timed"]})
    style.footnote(figure, f"geometric mean of n = {', '.join(map(str, counts))} processes")
    style.without_data(figure)
    return figure
