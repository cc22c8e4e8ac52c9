// A live page: a form, whose values are kept in the address, and what follows from them. decision.js decides,
// sentences.js makes the words, chart.js draws. The data is in the page, all from Python (report/live.py).
"use strict";
const live = (() => {
  const narrow = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 640px)");

  // What the form asks for, as decision.js wants it.
  function read(form, data) {
    const value = (name) => form.elements[name]?.value.trim() ?? "";
    const number = (name, usual) => (value(name) === "" || !(Number(value(name)) >= 0) ? usual : Number(value(name)));
    const isChecked = (name) => form.elements[name]?.checked ?? false;
    const amount = number("units", data.amount), epochs = number("epochs", data.epochs);
    const [tokens, unit] = data.tokens ? [data.tokens, "token"] : [1, data.unit];
    const times = epochs === 1 ? "" : ` × ${epochs.toLocaleString("en-US")} epochs`;
    const devices = data.rows.map((row) => row.device);
    const isTyped = (field) => field && field.value !== field.defaultValue; // what stands there is a market's, with its spread
    const priced = data.rows.map(({ priced: [, name] }) => name).filter(
      (name) => isTyped(form.elements[`price ${name}`]) && number(`price ${name}`, null) !== null);
    const isAsked = data.by_epochs || ["units", "epochs"].some((name) => isTyped(form.elements[name]));
    return {
      units: (amount * epochs) / tokens, epochs: isAsked ? epochs : null, words: `${amount.toLocaleString("en-US")} ${unit}s${times}`,
      by: value("by") || "cost", deadline: number("deadline", data.wants.deadline) * decision.HOUR,
      budget: number("budget", null), hour_usd: number("hour", 0), only_free: isChecked("free"), spot: isChecked("spot"),
      port: data.port,
      prices: Object.fromEntries(priced.map((name) => [name, number(`price ${name}`, null)])),
      without: devices.filter((device) => form.elements[`take ${device}`]?.checked === false),
    };
  }

  function isUsual(field) {
    if (field.tagName === "SELECT") return field.selectedOptions[0].defaultSelected;
    return field.type === "checkbox" ? field.checked === field.defaultChecked : field.value === field.defaultValue;
  }
  function keep(form, place) {
    const kept = new URLSearchParams(place ? { answer: place } : {});
    for (const field of form.elements)
      if (field.name && !isUsual(field)) kept.set(field.name, field.type === "checkbox" ? Number(field.checked) : field.value);
    history.replaceState(null, "", `${location.pathname}${location.search}#${kept}`);
  }
  // Whether the address keeps a choice for this form, which is then put into it.
  function restore(form, place) {
    const kept = new URLSearchParams(location.hash.slice(1));
    if (Number(kept.get("answer") ?? 0) !== place || ![...kept.keys()].some((name) => form.elements[name])) return false;
    for (const [name, value] of kept) {
      const field = form.elements[name];
      if (!field) continue;
      if (field.type === "checkbox") field.checked = value === "1"; else field.value = value;
    }
    return true;
  }

  function element(tag, text, kind) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }
  function row([device, ...texts], head, isPick) {
    const line = element("tr", "", isPick ? "pick" : ""), name = element("th", device);
    name.scope = "row";
    line.append(name, ...texts.map((text, place) => {
      const cell = element("td", text || "–", place < texts.length - 1 ? "number" : "");
      cell.dataset.label = head[place + 1];
      return cell;
    }));
    return line;
  }
  function show(section, data, form) {
    const wants = read(form, data), answer = decision.decide(data, wants);
    const [first, ...rest] = sentences.lines(data, wants, answer), part = (name) => section.querySelector(name);
    part("[data-decision]").textContent = first;
    part("[data-lines]").replaceChildren(...rest.map((line) => element("p", line)));
    section.querySelectorAll("[data-as-asked]").forEach((note) => note.remove());
    if (data.notes) part(".notes").replaceChildren(...data.notes.map((note) => element("li", note)));
    const title = part("[data-title]") ?? section.closest("details").querySelector("summary");
    title.textContent = sentences.say(data.title, { amount: wants.words });
    const shown = answer.options.filter(({ row }) => wants.spot || !row.spot);
    part("tbody").replaceChildren(...shown.map((option) => row(sentences.cells(option, data, answer), data.head, option === answer.pick)));
    const svg = part("svg.chart");
    if (svg) chart.draw(svg, data.chart, answer, narrow.matches);
  }

  // A slider moves the price in the field beside it, from a tenth to ten times.
  function slide(form, slider) {
    const field = form.elements[slider.dataset.of], times = 10 ** Number(slider.value);
    field.value = times === 1 ? field.defaultValue : (Number(field.defaultValue) * times).toPrecision(3);
  }

  // Makes a section answer its form; `dataOf` gives the data for what the form holds, `draw` shows what follows.
  function start(section, place, dataOf, draw = show) {
    const form = section.querySelector("form"), again = () => draw(section, dataOf(form), form);
    form.hidden = false;
    if (restore(form, place) || narrow.matches) again();
    form.addEventListener("input", ({ target }) => {
      if (target.dataset.of) slide(form, target);
      keep(form, place);
      again();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    narrow.addEventListener("change", again);
  }
  function startAll() {
    document.querySelectorAll("section[data-live]").forEach((section, place) => {
      const data = JSON.parse(section.querySelector("script[type='application/json']").textContent);
      start(section, place, () => data, data.servers ? serving.show : show);
    });
  }
  if (typeof document !== "undefined") queueMicrotask(startAll); // after serving.js
  return { start, show, element, row };
})();
