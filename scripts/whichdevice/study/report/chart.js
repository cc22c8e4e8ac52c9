// The picture of report/chart.py in a browser: cost against time, both logarithmic, with the same scales and places.
"use strict";
const chart = (() => {
  const { timeWords, digits } = sentences;

  function element(tag, values, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const line = (kind, x1, y1, x2, y2) => element("line", { class: kind, x1, y1, x2, y2 });
  const label = (x, y, text, anchor, kind = "") => element("text", { class: kind, x, y, "text-anchor": anchor }, text);

  function scaleOf(values, first, last) {
    const low = Math.log(Math.min(...values) / 1.15), span = Math.max(Math.log(Math.max(...values) * 1.15) - low, 0.5);
    return (value) => first + ((last - first) * (Math.log(value) - low)) / span;
  }
  // What an axis names: not too near to the name before or to the axis' unit.
  function ticks(names, values, place, apart, margin) {
    const low = Math.min(...values) / 1.1, high = Math.max(...values) * 1.1, kept = [];
    for (const name of names)
      if (low <= name && name <= high && place(name) > margin + 12
          && (!kept.length || Math.abs(place(name) - place(kept.at(-1))) >= apart)) kept.push(name);
    return kept;
  }
  const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];

  // The name next to its dot, or null where it has no room; `taken` are boxes: left, top, right, bottom.
  function nameOf(text, { x, y }, kind, taken, { letter, anchors, places, left, wide, high, below, name, ...sizes }) {
    const isPick = kind.split(" ").includes("pick"), more = isPick ? sizes.pick_dot - sizes.dot : 0;
    const size = (isPick ? sizes.pick_letter : letter) * text.length;
    for (const [across, down, anchor] of places) {
      const line = y + down + (across ? 0 : Math.sign(down) * more), half = size / 2 + name.gap + 1;
      let right = x + across + Math.sign(across) * more;
      if (anchor === "middle") right = Math.min(Math.max(right, left + half), wide - half); // inside the picture
      const start = right - size * anchors[anchor];
      const box = [start - name.gap, line - name.above, start + size + name.gap, line + name.below];
      const inside = left < box[0] && box[2] < wide && 0 < box[1] && box[3] < high - below + 4;
      if (!inside || taken.some((other) => overlap(box, other))) continue;
      taken.push(box);
      return label(right, line, text, anchor, kind);
    }
    return null;
  }

  function axes(sizes, times, costs, across, up) {
    const { wide, high, left, below, margin, right, apart } = sizes, parts = [];
    for (const second of ticks(sizes.times, times, across, apart[0], margin))
      parts.push(line("grid", across(second), margin, across(second), high - below),
        label(across(second), high - below + 16, timeWords(second), "middle"));
    for (const usd of ticks(sizes.costs, costs, up, apart[1], margin))
      parts.push(line("grid", left, up(usd), wide - right, up(usd)),
        label(left - 6, up(usd) + 4, usd <= sizes.min_usd ? "free" : digits(usd, 10), "end"));
    parts.push(label(left - 6, margin - 2, "USD", "end"), label(wide - right, high - 6, sizes.axis, "end"));
    return parts;
  }

  // Draws the choices of an answer into an SVG element; on a narrow page in a narrower picture with the same letters.
  function draw(svg, usual, answer, isNarrow) {
    const sizes = isNarrow ? { ...usual, ...usual.narrow } : usual, { wide, high, left, below, margin, right, dot } = sizes;
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const shown = answer.options.filter((option) => option.ruled_out === null && option.usd !== undefined);
    const key = (option) => (option === answer.pick ? 0 : option.row.is_here ? 1 : 2);
    shown.sort((one, other) => key(one) - key(other) || one.usd - other.usd);
    const atLeast = (usd) => Math.max(usd, sizes.min_usd);
    const times = shown.flatMap((option) => [option.seconds_low, option.seconds_high]);
    const costs = shown.flatMap((option) => [atLeast(option.usd_low), atLeast(option.usd_high)]);
    const across = scaleOf(times, left, wide - right), up = scaleOf(costs, high - below, margin);
    const points = shown.map((option) => {
      const x = across(option.seconds), y = up(atLeast(option.usd));
      const half = option === answer.pick ? sizes.pick_dot : dot;
      return { option, x, y, box: [x - half, y - half, x + half, y + half] };
    });
    const parts = axes(sizes, times, costs, across, up), taken = points.map((point) => point.box);
    for (const point of points) {
      const { option, x, y } = point, isPick = option === answer.pick;
      const kind = `${isPick ? "pick " : ""}${option.row.is_here ? "measured" : "forecast"}`;
      parts.push(line(`bar ${kind}`, across(option.seconds_low), up(atLeast(option.usd_low)), across(option.seconds_high), up(atLeast(option.usd_high))));
      const circle = element("circle", { class: kind, cx: x, cy: y, r: isPick ? sizes.pick_dot : dot });
      circle.append(element("title", {}, option.row.device));
      parts.push(circle);
      if (option.on_front || isPick || points.length <= sizes.max_names) parts.push(nameOf(option.row.device, point, kind, taken, sizes));
    }
    svg.replaceChildren(...parts.filter(Boolean));
  }
  return { draw, element, line, label, scaleOf, ticks, nameOf };
})();
