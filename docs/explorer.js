// The explorer: data of an answer for each choice of model, training and batch, which report/live.js decides.
"use strict";
const explorer = (() => {
  const all = JSON.parse(document.getElementById("data").textContent);
  const code = new Map([...all.codes].map((letter, place) => [letter, place]));
  const number = (text) => [...text].reduce((sum, letter) => sum * all.codes.length + code.get(letter), 0);
  const normals = (text) => {
    const half = [];
    for (let n = 0; n < text.length; n += 2) half.push(all.draws.values[number(text.slice(n, n + 2))]);
    return [...half, ...half.map((value) => -value)];
  };
  const parts = {};
  for (const software of ["eager", "xla"]) {
    const { shared, host, chips } = all.draws[software];
    const own = Object.fromEntries(Object.entries(chips).map(([chip, text]) => [chip, normals(text)]));
    parts[software] = { shared: normals(shared), ofHost: normals(host), own };
  }

  // Step times as forecast/joint.py draws them: the larger of the device's and the host's, as rounded logarithms.
  function steps(software, device, time, sdShared, sdOwn, host, sdHost) {
    const { shared, ofHost } = parts[software], own = parts[software].own[all.draws.of[device]], digits = all.common.limits.digits;
    return shared.map((z, n) => Math.round(digits * Math.max(time + sdShared * z + sdOwn * own[n], host + sdHost * ofHost[n])));
  }

  // What report/live.py makes of an answer, for one choice.
  function dataOf(name, how, batch) {
    const model = all.models.find((each) => each.name === name), choice = model.choices[how];
    const [texts, hosts, needs, notes] = choice[batch], cache = {};
    const rows = [];
    for (const known of all.devices) {
      const device = known.device.split(", ")[0], place = all.letters * all.order.indexOf(device);
      const text = texts.slice(place, place + all.letters).trimEnd();
      if (text === "" || (known.device !== device && text.length === 2)) continue; // no offers of what is too small
      cache[device] ??= (() => {
        const mark = all.marks.indexOf(text[1]) % 3, rough = all.marks.indexOf(text[1]) > 2;
        const needed = whichdevice.digits(needs[number(text[0])] / 1e9, 2), has = whichdevice.digits(known.memory, 2);
        const amount = `${needed} of ${has}`, tight = mark === 1, fits = `${["", "tight: ", "no: "][mark]}${amount}`;
        const no = text.length > 2 ? null : [null, all.common.sentences.no_tight, all.common.sentences.no_fits][mark];
        if (text.length === 2) return { fits, needs: amount, tight, no, rough: false, steps: null, step: "–", known: "" };
        const read = (from, to) => number(text.slice(from, to)) / all.scale;
        const [time, step] = [read(2, 6), read(6, 10)].map((value) => value - Math.log(1e9));
        const [host, sdHost] = hosts[number(text[16])];
        return {
          fits, needs: amount, tight, no, rough, steps: steps(model.software, device, time, read(10, 13), read(13, 16), Math.log(host), sdHost),
          step: whichdevice.timeWords(Math.exp(step), rough), known: rough ? "forecast, rough" : "forecast",
        };
      })();
      rows.push({ ...known, ...cache[device] });
    }
    const short = name.split("/").at(-1);
    return {
      ...all.common, workload: short, unit: model.unit, units_per_step: batch, rows, notes: notes.map((n) => all.notes[n]),
      title: `${short} · {amount} · batch ${batch.toLocaleString("en-US")} · ${choice.format}`,
    };
  }

  // The form: trainings and batches that the model has, and its unit.
  function chosen(form) {
    const field = form.elements;
    if (!field.model.value) field.model.value = [...field.model.options].find((option) => option.defaultSelected).value;
    const model = all.models.find((each) => each.name === field.model.value);
    const limit = (select, usable) => {
      for (const option of select.options) option.disabled = option.hidden = !usable.includes(option.value);
      if (!usable.includes(select.value)) select.value = usable[0];
    };
    limit(field.how, Object.keys(model.choices));
    limit(field.batch, Object.keys(model.choices[field.how.value]).filter((each) => each !== "format"));
    limit(field.of, model.tokens ? ["examples", "tokens"] : ["examples"]);
    const data = dataOf(model.name, field.how.value, Number(field.batch.value));
    return field.of.value === "tokens" ? { ...data, tokens: model.tokens } : data;
  }
  const section = document.querySelector("section"), form = section.querySelector("form");
  const kept = new URLSearchParams(location.hash.slice(1)), missing = document.querySelector(".missing");
  whichdevice.live(section, 0, chosen);
  const lost = ["model", "how", "batch", "of"].filter((name) => kept.has(name) && form.elements[name].value !== kept.get(name));
  missing.hidden = !lost.length;
  missing.textContent = `Not on this page: ${lost.map((name) => `${name} ${kept.get(name)}`).join(", ")}. `
    + `What follows is of ${form.elements.model.value}, ${form.elements.how.value}, batch ${form.elements.batch.value}.`;
  form.addEventListener("input", () => { missing.hidden = true; });
  addEventListener("hashchange", () => location.reload());
  return { dataOf };
})();
