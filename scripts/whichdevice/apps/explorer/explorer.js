// The explorer: the facts of each choice of model, training and batch, which decision.js decides and live.js shows.
"use strict";
const explorer = (async () => {
  const text = document.getElementById("data").textContent.trim();
  const packed = new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))]);
  const all = await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).json();

  // What report/live.py makes of an answer, for one choice.
  function dataOf(name, training, batch) {
    const model = all.models.find((known) => known.name === name), { formats, batches } = model.choices[training];
    const { cards, columns, notes } = batches[batch], short = name.split("/").at(-1), rows = [];
    for (const offer of all.devices) {
      const place = cards.indexOf(offer.card);
      if (place < 0 || (offer.device !== offer.card && !columns.step_time[place])) continue; // no offers of what is too small
      const facts = Object.entries(columns).map(([column, values]) => [column, values[place]]);
      rows.push({ ...offer, ...Object.fromEntries(facts), units: batch, times: 1 }); // GPUs share a batch here
    }
    return {
      ...all.common, workload: short, unit: model.unit, rows, notes: notes.map((note) => all.notes[note]),
      title: `${short} · {amount} · batch ${batch.toLocaleString("en-US")} · ${formats}`,
    };
  }

  // The data for what the form holds, whose fields offer what the model has.
  function chosen(form) {
    const field = form.elements;
    if (!field.model.value) field.model.value = [...field.model.options].find((option) => option.defaultSelected).value;
    const model = all.models.find((known) => known.name === field.model.value);
    const limit = (select, usable) => {
      for (const option of select.options) option.disabled = option.hidden = !usable.includes(option.value);
      if (!usable.includes(select.value)) select.value = usable[0];
    };
    limit(field.how, Object.keys(model.choices));
    limit(field.batch, Object.keys(model.choices[field.how.value].batches));
    limit(field.of, model.tokens ? ["examples", "tokens"] : ["examples"]);
    limit(field.use, model.serving ? ["training", "serving"] : ["training"]);
    if (field.use.value === "serving") return { serving: model.serving };
    const data = dataOf(model.name, field.how.value, Number(field.batch.value));
    return field.of.value === "tokens" ? { ...data, tokens: model.tokens } : data;
  }

  // The table begins with twelve rows; those of devices that people ask about most are in it, too.
  function mark(section) {
    for (const row of section.querySelectorAll("tbody tr")) row.classList.toggle("usual", all.usual.includes(row.firstElementChild.textContent));
  }

  // An answer of training, or what serves the model, as Python has written it.
  function show(section, data, form) {
    section.dataset.use = form.elements.use.value;
    const [names] = section.querySelectorAll("thead tr"), { head = heads } = data.serving ?? {};
    names.replaceChildren(...head.map((name, place) => {
      const cell = live.element("th", name, place > 0 && place < head.length - 1 ? "number" : "");
      cell.scope = "col";
      return cell;
    }));
    if (!data.serving) {
      live.show(section, data, form);
      return mark(section);
    }
    const { title, lines: [first, ...rest], cells, notes } = data.serving, part = (name) => section.querySelector(name);
    part("[data-title]").textContent = title;
    part("[data-decision]").textContent = first;
    part("[data-lines]").replaceChildren(...rest.map((line) => live.element("p", line)));
    part("tbody").replaceChildren(...cells.map(([isPick, texts]) => live.row(texts, head, isPick)));
    part(".notes").replaceChildren(...notes.map((note) => live.element("li", note)));
  }

  const heads = [...document.querySelectorAll("section thead th")].map((cell) => cell.textContent);
  const section = document.querySelector("section"), { elements } = section.querySelector("form");
  const kept = new URLSearchParams(location.hash.slice(1)), missing = document.querySelector(".missing");
  live.start(section, 0, chosen, show);
  mark(section);
  const lost = ["model", "use", "how", "batch", "of"].filter((name) => kept.has(name) && elements[name].value !== kept.get(name));
  missing.hidden = !lost.length;
  missing.textContent = `Not on this page: ${lost.map((name) => `${name} ${kept.get(name)}`).join(", ")}. `
    + `What follows is of ${elements.model.value}, ${elements.how.value}, batch ${elements.batch.value}.`;
  section.addEventListener("input", () => { missing.hidden = true; });
  addEventListener("hashchange", () => location.reload());
  return { dataOf };
})();
