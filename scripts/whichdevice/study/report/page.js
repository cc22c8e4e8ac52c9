// All that a page does by itself: it multiplies Python's hours and USD, sorts a table, filters rows and marks the row of
// the least USD in time. A row has its facts in data attributes (report/products.py); whatever else is said is Python's.
"use strict";
{
  const typed = (field) => (field && field.value.trim() !== "" && Number(field.value) >= 0 ? Number(field.value) : null);
  const digits = (value, most) => value.toLocaleString("en-US", { maximumSignificantDigits: most });
  const money = (usd) => (usd < 0.1 ? digits(usd, 2) : usd < 10 ? usd.toFixed(2) : Math.round(usd).toLocaleString("en-US"));
  const fact = (row, name) => Number(row.dataset[name] || "NaN");

  // The price of an hour, hours and USD of a row for so many times the amount of work; NaN where no price is known.
  function products(row, times) {
    const price = typed(row.querySelector("input")) ?? fact(row, "price");
    const hours = (fact(row, "start") + fact(row, "begun") * times) / 3600;
    return { price, hours, usd: price * fact(row, "billed") * hours };
  }

  // How many times the amount that Python answered for is typed.
  function amountTyped({ amount }) {
    return (typed(amount) ?? Number(amount.defaultValue)) / Number(amount.defaultValue);
  }

  // Hides what the reader did not choose; `opens`: of models, only the answer of a chosen one is open.
  function filter(part, { model, kind, text }, opens) {
    const words = (text?.value ?? "").toLowerCase().split(/\s+/);
    for (const shown of part.querySelectorAll("[data-model]")) {
      const isRow = shown.tagName === "TR", content = isRow ? shown.textContent.toLowerCase() : "";
      const isOther = (model?.value && shown.dataset.model !== model.value) || (isRow && kind?.value && shown.dataset.kind !== kind.value);
      shown.hidden = isOther || (isRow && !words.every((word) => content.includes(word)));
      if (!isRow && opens) shown.open = Boolean(model.value) && !isOther;
    }
  }

  // Writes the products of each row; of each model the row shown of the least USD within the deadline is marked.
  function multiply(part, fields) {
    const times = amountTyped(fields), deadline = typed(fields.deadline) ?? Infinity, least = new Map();
    for (const row of part.querySelectorAll("tbody tr")) {
      const { hours, usd } = products(row, times), best = least.get(row.dataset.model);
      row.querySelector("[data-hours]").textContent = `${digits(hours, 3)} h`;
      row.querySelector("[data-usd]").textContent = Number.isNaN(usd) ? "–" : money(usd);
      row.classList.remove("pick");
      if (!row.hidden && hours <= Math.min(deadline, fact(row, "session") || Infinity) && usd < (best?.usd ?? Infinity)) least.set(row.dataset.model, { row, usd });
    }
    for (const { row } of least.values()) row.classList.add("pick");
  }

  // Sorts rows by a number of theirs, or by the text of the column; a second time the other way round.
  function sort(part, heading, fields) {
    const { key } = heading.dataset, times = amountTyped(fields), body = part.querySelector("tbody");
    const isDown = heading.ariaSort === "ascending", empty = isDown ? -Infinity : Infinity;
    const rows = [...body.rows].map((row) => {
      if (!key) return [row.cells[heading.cellIndex].textContent, row];
      const value = products(row, times)[key] ?? fact(row, key);
      return [Number.isNaN(value) ? empty : value, row];
    });
    rows.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    if (isDown) rows.reverse();
    for (const other of part.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.ariaSort = isDown ? "descending" : "ascending";
    body.append(...rows.map(([, row]) => row));
  }

  for (const part of document.querySelectorAll("[data-products]")) {
    const form = part.querySelector("form"), fields = form.elements;
    let isTyped = false;
    for (const heading of part.querySelectorAll("thead th")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(part, heading, fields));
      heading.append(button);
    }
    part.addEventListener("input", ({ target }) => {
      isTyped ||= target.type === "number";
      if (target.type !== "number") filter(part, fields, target === fields.model);
      if (isTyped) multiply(part, fields);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    part.hidden = form.hidden = false;
    filter(part, fields, true);
  }
}
