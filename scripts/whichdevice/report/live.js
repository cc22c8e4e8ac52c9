// The decision of a live page: answer/decide.py and the sentences of answer/words.py again, for what the reader types.
// DATA holds an answer's rows with their joint draws of step times, limits and sentence templates, all from Python.
"use strict";
const whichdevice = (() => {
  const HOUR = 3600, DAY = 24 * HOUR, MILLION = 1e6;

  const quantile = (values, share) => {
    const sorted = Float64Array.from(values).sort(), place = share * (sorted.length - 1), below = Math.floor(place);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
  };
  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const say = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

  // Options, the pick and how sure it is. `wants`: units, by, deadline, budget, onlyFree, spot, hourUsd, prices, without.
  function decide(data, wants) {
    const limits = data.limits, count = wants.units / data.units_per_step;
    const options = data.rows.map((row, place) => {
      const price = wants.prices?.[row.device] ?? row.usd_per_hour;
      const option = { row, place, price };
      if (!row.steps) return option;
      const running = row.steps.map((step) => row.start_time + count * Math.exp(step / limits.digits) * (1 + row.prompts));
      const week = Math.min((row.week_hours ?? Infinity) * HOUR, 7 * DAY);
      option.times = running.map((time) => time + (time > week ? Math.floor(time / week) * (7 * DAY - week) : 0));
      option.in_time = mean(option.times.map((time) => (time <= wants.deadline ? 1 : 0)));
      [option.seconds_low, option.seconds, option.seconds_high] = limits.quantiles.map((q) => quantile(option.times, q));
      if (price !== null) {
        option.costs = running.map((time) => (price * time) / HOUR);
        [option.usd_low, option.usd, option.usd_high] = limits.quantiles.map((q) => quantile(option.costs, q));
      }
      return option;
    });
    for (const option of options) [option.reason, option.ruled_out] = ruledOut(option, wants, data);
    if (wants.budget === null && options.every((each) => each.reason !== null)) // what nobody rents out, by its time
      for (const option of options) if (option.reason === "price") option.reason = option.ruled_out = null;
    const chosen = options.filter((each) => each.reason === null);
    const timely = chosen.filter((each) => each.in_time >= limits.in_time);
    const by = timely.length && chosen.some((each) => each.usd !== undefined) ? wants.by : "time";
    const pool = by === "cost" && timely.length ? timely : chosen;
    if (!pool.length) return { options, pick: null, by, matters: true };
    for (const each of chosen)
      each.value = each.costs ? each.costs.map((cost, n) => cost + (wants.hourUsd * each.times[n]) / HOUR) : null;
    const at = (price) => pickOf(pool, "cost", limits, (each, n) => each.costs[n] + (price * each.times[n]) / HOUR);
    const pick = pickOf(pool, by, limits, (each, n) => each.value[n]);
    chances(chosen, by, wants, limits);
    for (const each of chosen)
      each.on_front = each.usd === undefined
        || !chosen.some((other) => other.usd < each.usd && other.seconds < each.seconds);
    const priced = chosen.filter((each) => each.usd !== undefined);
    const least = (list, key) => list.reduce((best, each) => (best === null || before(key(each), key(best)) ? each : best), null);
    const rivals = pool.filter((each) => each !== pick);
    const rival = rivals.reduce((best, each) => (best === null || each.sure > best.sure ? each : best), null);
    return {
      options, pick, by, pool, late: wants.by === "cost" && !data.operation && !timely.length,
      turning: by === "cost" ? turning(at, wants.hourUsd, limits.dearest_hour, limits.point) : [],
      matters: chosen.some((each) => isWorse(each, pick, limits)),
      regret_at_most: quantile(pick.saved, 0.9),
      fastest: least(chosen, (each) => [each.seconds, each.usd ?? Infinity]),
      cheapest: least(priced, (each) => [each.usd]),
      rival: pick.sure < limits.likely ? rival : null,
      avoid: toAvoid(pick, pool.filter((each) => !each.row.is_here), limits),
    };
  }

  const card = (option) => option.row.device.split(", ")[0];
  function toAvoid(best, choices, limits) {
    const dear = Math.max(2 * (best.usd ?? 0), (best.usd ?? 0) + limits.avoid_usd);
    const worse = choices.filter((each) => each.seconds > best.seconds && each.usd > dear && card(each) !== card(best));
    return worse.reduce((most, each) => (most === null || each.usd > most.usd ? each : most), null);
  }

  function ruledOut(option, wants, data) {
    const { row } = option, words = data.sentences, none = [null, null];
    if (wants.without?.includes(row.device)) return ["left_out", words.left_out];
    if (row.no) return ["no", row.no];
    if (option.seconds === undefined) return ["time", words.no_time];
    if (row.spot && !wants.spot) return ["spot", words.no_spot];
    if (option.usd === undefined) return wants.by === "cost" || wants.budget !== null ? ["price", words.no_price] : none;
    if (wants.onlyFree && option.usd !== 0 && !row.is_here) return ["free", words.no_free];
    if (wants.budget !== null && option.usd > wants.budget) return ["budget", say(words.no_budget, { usd: wants.budget })];
    if (row.session_hours && option.seconds > row.session_hours * HOUR && !wants.onlyFree)
      return ["session", say(words.no_session, { hours: row.session_hours })];
    return none;
  }

  // Where the pick changes as an hour of waiting costs more: [price, device], as decide.py's.
  function turning(at, from, to, error) {
    const points = [];
    const look = (low, high, first, last) => {
      if (first === last) return;
      if (high - low <= error * Math.max(high, 1)) return points.push([high, last.row.device]);
      const middle = high < 2 * Math.max(low, 1) ? (low + high) / 2 : Math.sqrt(Math.max(low, 0.1) * high);
      const between = at(middle);
      look(low, middle, first, between);
      look(middle, high, between, last);
    };
    look(from, to, at(from), at(to));
    return points;
  }

  function pickOf(pool, by, limits, value) {
    const cost = new Map(pool.map((each) => [each, each.costs ? mean(each.costs.map((_, n) => value(each, n))) : NaN]));
    const time = new Map(pool.map((each) => [each, mean(each.times)]));
    const measures = [[cost, limits.near_usd], [time, limits.near_seconds]];
    if (by === "time") measures.reverse();
    let near = pool;
    for (const [measure, slack] of measures) {
      const known = near.map((each) => measure.get(each)).filter((each) => !Number.isNaN(each));
      const least = known.length ? Math.min(...known) : 0;
      const kept = near.filter((each) => !(measure.get(each) > Math.max(least * (1 + limits.near), least + slack)));
      near = kept.length ? kept : near;
    }
    const here = near.filter((each) => each.row.is_here);
    const order = (each) => [Number.isNaN(cost.get(each)) ? 1 : 0, cost.get(each) || 0, time.get(each)];
    return (here.length ? here : near).reduce((best, each) => (before(order(each), order(best)) ? each : best));
  }
  const before = (one, other) => {
    for (let n = 0; n < one.length; n++) if (one[n] !== other[n]) return one[n] < other[n];
    return false;
  };

  function chances(chosen, by, wants, limits) {
    const draws = chosen[0].times.length, slack = by === "cost" ? limits.near_usd : limits.near_seconds;
    const worth = (each, n) => (by === "cost" ? (each.value ? each.value[n] : Infinity) : each.times[n]);
    for (const each of chosen) [each.kept, each.saved] = [0, new Float64Array(draws)];
    for (let n = 0; n < draws; n++) {
      const late = chosen.map((each) => by === "cost" && each.times[n] > wants.deadline);
      const allLate = late.every(Boolean);
      let best = Infinity;
      chosen.forEach((each, place) => { if (!late[place] || allLate) best = Math.min(best, worth(each, n)); });
      chosen.forEach((each, place) => {
        const own = worth(each, n);
        if (own <= Math.max(best * (1 + limits.near), best + slack) && (!late[place] || allLate)) each.kept += 1;
        each.saved[n] = Number.isFinite(own) ? Math.max(own - best, 0) : 0;
      });
    }
    for (const each of chosen) each.sure = each.kept / draws;
  }

  function isWorse(each, best, limits) {
    const over = (value, base, slack) => (value ?? 0) > Math.max((base ?? 0) * (1 + limits.near), (base ?? 0) + slack);
    return over(each.seconds, best.seconds, limits.near_seconds) || over(each.usd, best.usd, limits.near_usd);
  }

  // Numbers as answer/words.py writes them.
  const digits = (value, many) => Number(value.toPrecision(many)).toLocaleString("en-US", { maximumFractionDigits: 12 });
  function timeWords(seconds, rough = false, like = seconds) {
    const about = rough ? "about " : "", many = rough ? 1 : 2;
    const units = [[1e-3, 1e-6, "µs"], [1, 1e-3, "ms"], [90, 1, "s"], [90 * 60, 60, "min"], [3 * DAY, HOUR, "h"]];
    for (const [limit, one, unit] of [...units, [2 * 365 * DAY, DAY, "days"]])
      if (like < limit) return `${about}${digits(seconds / one, many)} ${unit}`;
    return "years";
  }
  const usdWords = (usd) =>
    usd < 0.005 ? (usd > 0 ? "<0.01" : "0") : usd < 10 ? usd.toFixed(2) : Math.round(Number(usd.toPrecision(3))).toLocaleString("en-US");
  function between(low, high, written) {
    const [first, last] = [written(low), written(high)];
    if (first === last) return "";
    const [one] = first.split(" "), [other, unit] = last.split(" ");
    return ` [${one}–${other}${unit ? ` ${unit}` : ""}]`;
  }
  const time = (option, ends = true) =>
    timeWords(option.seconds, option.row.rough)
    + (ends && !option.row.rough ? between(option.seconds_low, option.seconds_high, (each) => timeWords(each, false, option.seconds)) : "");
  const cost = (option, ends = true) => (option.usd === undefined ? "–"
    : (option.row.rough && option.usd >= 0.1 ? "about " : "") + usdWords(option.usd)
      + (ends && !option.row.rough ? between(option.usd_low, option.usd_high, usdWords) : ""));

  // The lines above the table: what answer/words.py says of the same answer.
  function lines(data, wants, answer) {
    const words = data.sentences, { pick, by, fastest, cheapest, rival, avoid, options } = answer, limits = data.limits;
    const choices = options.filter((each) => each.ruled_out === null), here = options[data.here];
    if (!pick) {
      const reasons = new Map();
      for (const each of order(answer))
        if (each.reason !== "spot") reasons.set(each.ruled_out, [...(reasons.get(each.ruled_out) ?? []), card(each)]);
      const whole = [...reasons].map(([why, names]) => say(words.why, { devices: joined([...new Set(names)]), why })).join("; ");
      return [say(words.nothing, { workload: data.workload, reasons: whole })];
    }
    const price = pick.usd === undefined ? words.no_cost : say(words.cost, { usd: cost(pick) });
    let first;
    if (data.operation) {
      const hourly = pick.price === null ? "" : say(words.hourly, { usd: usdWords(pick.price) });
      first = say(words.operation, { use: pick.row.use, rate: pick.row.rate, hourly, amount: wants.words, time: time(pick), usd: price });
    } else {
      const where = pick.row.is_here ? "" : here === undefined ? ""
        : here.seconds !== undefined ? say(words.instead, { time: time(here, false), where: data.where }) : data.no_here;
      first = say(words.decision, { use: pick.row.use, time: time(pick), instead: where, usd: price + (pick.row.power ?? "") });
    }
    const found = [first];
    const near = by === "cost" && cheapest && cheapest.in_time >= limits.in_time && cheapest.usd < (pick.usd ?? 0);
    const timely = by === "cost" && !data.operation ? choices.filter((each) => each.in_time >= limits.in_time) : choices;
    const only = timely.length === 1, number = { count: only ? choices.length : timely.length };
    const most = only ? words.only : near ? words.near : by === "cost" ? words.cheapest : words.fastest_of_all;
    if (choices.length === 1) found.push(words.alone);
    else if (!answer.matters) {
      const apart = pick.seconds * limits.near > limits.near_seconds ? `${100 * limits.near} %` : `${limits.near_seconds / 60} min`;
      const more = (pick.usd ?? 0) * limits.near > limits.near_usd ? `${100 * limits.near} %` : say(words.usd, { usd: limits.near_usd.toFixed(2) });
      found.push(say(words.no_matter, { count: choices.length, apart, more }));
    }
    else {
      let among = say(words.among, number);
      if (answer.late) among += say(words.none_in_time, { time: timeWords(wants.deadline) });
      else if (by === "cost" && !data.operation) among += say(only ? words.ends_in_time : words.in_time, { time: timeWords(wants.deadline) });
      const chance = `${Math.round(100 * pick.sure)} %`, saves = answer.regret_at_most;
      const what = by === "cost" ? say(words.usd, { usd: usdWords(saves) }) : timeWords(saves), even = tossUp(answer, limits);
      if (pick.sure >= limits.certain) found.push(say(words.sure, { most, among }));
      else if (pick.sure >= limits.sure) found.push(say(words.nearly_sure, { most, among, chance }));
      else if (by === "cost" && pick.in_time < limits.sure && pick.in_time - pick.sure < limits.late) {
        found.push(say(words.late, { most, among, chance: `${Math.round(100 * pick.in_time)} %` }));
      } else if (even.length) found.push(say(words.toss_up, { among, devices: joined(even.map((each) => each.row.device)), saves: what }));
      else found.push(say(words.probably, { most: most.toLowerCase(), among, chance, saves: what }));
    }
    if (rival && answer.matters) {
      const apart = [], [mine, other] = [pick.row.memory, rival.row.memory];
      if (Math.abs(Math.log(rival.seconds / pick.seconds)) > limits.near) apart.push(say(words.takes, { time: time(rival, false) }));
      if (rival.usd !== undefined && pick.usd !== undefined && usdWords(rival.usd) !== usdWords(pick.usd))
        apart.push(say(words.costs, { usd: cost(rival, false) }));
      if (mine && other && Math.abs(Math.log(mine / other)) > 0.2)
        apart.push(say(words.memory, { mine: mine.toFixed(0), other: other.toFixed(0) }));
      found.push(say(words.rival, { device: rival.row.device, apart: apart.join(", ") || words.same }));
    }
    const later = Math.max(fastest.seconds * (1 + limits.near), fastest.seconds + limits.near_seconds);
    if (fastest !== pick && pick.seconds >= later) {
      found.push(say(words.fastest, {
        device: fastest.row.device, time: time(fastest), usd: cost(fastest, false), more: turningWords(answer, fastest, words),
      }));
    }
    const days = cheapest ? Math.ceil((cheapest.seconds_high ?? cheapest.seconds) / DAY) : 0;
    if (cheapest && cheapest !== pick && wants.by === "cost" && cheapest.in_time < limits.in_time && days <= 365
        && pick.usd - cheapest.usd >= limits.near_usd)
      found.push(say(words.more_time, { device: cheapest.row.device, time: time(cheapest, false), usd: cost(cheapest, false), days }));
    if (pick.row.waits) found.push(pick.row.waits);
    const isTight = (each) => each.row.tight;
    if (isTight(pick)) {
      const others = order(answer).filter((each) => each.ruled_out === null && !isTight(each));
      const inTime = others.filter((each) => each.in_time >= limits.in_time), from = inTime.length ? inTime : others;
      const other = from.reduce((best, each) => (best === null || (each.usd ?? Infinity) < (best.usd ?? Infinity) ? each : best), null);
      const room = other ? say(words.room, { device: other.row.device, time: time(other, false), usd: cost(other, false) }) : "";
      found.push(say(words.tight, { memory: pick.row.needs, room }));
    }
    if (!pick.row.is_here && (pick.row.spot || pick.price === 0)) {
      const hours = pick.row.session_hours, week = pick.row.week_hours;
      let session = hours ? say(words.session, { hours }) : "";
      if (hours && pick.seconds > hours * HOUR) session += (week ? say(words.week, { hours: week }) : "") + words.keep;
      const other = options.find((each) => each.row.device === card(pick)), way = pick.row.spot ? words.on_demand : words.paid;
      const paid = other?.usd === undefined ? "" : say(way, { usd: cost(other, false), provider: other.row.provider });
      found.push(say(pick.row.spot ? words.spot : words.free, { session, paid }));
    }
    if (avoid) found.push(say(words.avoid, { device: avoid.row.device, usd: usdWords(avoid.usd), pick: pick.row.device }));
    return found.slice(0, limits.max_lines);
  }
  function tossUp({ pick, pool }, limits) {
    if (pick.sure >= limits.toss_up) return [];
    const near = pool.filter((each) => each !== pick && each.sure >= pick.sure / 2);
    return [pick, ...near.sort((one, other) => other.sure - one.sure).slice(0, 3)];
  }
  function turningWords({ turning }, fastest, words) {
    const hour = (usd) => (usd < 10 ? (Math.ceil(usd * 100 - 1e-6) / 100).toFixed(2) : Math.ceil(usd).toLocaleString("en-US"));
    const points = turning.map(([usd, device]) => ({ usd: hour(usd), device }));
    if (points.at(-1)?.device !== fastest.row.device) return "";
    return say(words.more, points.at(-1)) + points.slice(0, -1).map((each) => say(words.turning, each)).join("");
  }
  const joined = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);

  // The page: a form, whose values are kept in the address, and what follows from them.
  function read(form, data) {
    const value = (name) => form.elements[name]?.value.trim() ?? "";
    const many = (name, other) => (value(name) === "" || !(Number(value(name)) >= 0) ? other : Number(value(name)));
    const [examples, epochs] = [many("units", data.amount), many("epochs", data.epochs)];
    const prices = {}, without = [];
    for (const row of data.rows) {
      const own = form.elements[`price ${row.device}`], box = form.elements[`take ${row.device}`];
      if (own && own.value !== "" && Number(own.value) >= 0) prices[row.device] = Number(own.value);
      if (box && !box.checked) without.push(row.device);
    }
    const times = epochs === 1 ? "" : ` × ${epochs.toLocaleString("en-US")} epochs`, [tokens, unit] = data.tokens ? [data.tokens, "token"] : [1, data.unit];
    return {
      units: (examples * epochs) / tokens, words: `${examples.toLocaleString("en-US")} ${unit}s${times}`, by: value("by") || "cost",
      deadline: many("deadline", data.wants.deadline) * HOUR, budget: many("budget", null),
      hourUsd: many("hour", 0), onlyFree: form.elements.free?.checked ?? false, spot: form.elements.spot?.checked ?? false, prices, without,
    };
  }
  function keep(form, place) {
    const kept = new URLSearchParams(place ? { answer: place } : {});
    for (const field of form.elements) {
      if (!field.name) continue;
      const usual = field.type === "checkbox" ? field.defaultChecked : field.defaultValue;
      if (field.tagName === "SELECT") { if (!field.selectedOptions[0].defaultSelected) kept.set(field.name, field.value); }
      else if (field.type === "checkbox") { if (field.checked !== usual) kept.set(field.name, field.checked ? 1 : 0); }
      else if (field.value !== usual) kept.set(field.name, field.value);
    }
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
  function order(answer) {
    const measure = (each) => (answer.by === "cost" ? each.usd : each.seconds);
    const key = (each) => [each === answer.pick ? 0 : 1, each.ruled_out === null ? 0 : 1,
      measure(each) === undefined ? 1 : 0, measure(each) ?? 0, each.seconds ?? 0];
    return [...answer.options].sort((one, other) => (before(key(one), key(other)) ? -1 : 1));
  }
  function show(section, data, form) {
    const wants = read(form, data), answer = decide(data, wants), make = (tag, text, kind) => {
      const made = document.createElement(tag);
      made.textContent = text;
      if (kind) made.className = kind;
      return made;
    };
    const said = lines(data, wants, answer);
    section.querySelector("[data-decision]").textContent = said[0];
    section.querySelector("[data-lines]").replaceChildren(...said.slice(1).map((line) => make("p", line)));
    section.querySelectorAll("[data-as-asked]").forEach((note) => note.remove());
    if (data.notes) section.querySelector(".notes").replaceChildren(...data.notes.map((note) => make("li", note)));
    const title = section.querySelector("[data-title]") ?? section.closest("details").querySelector("summary");
    title.textContent = say(data.title, { amount: wants.words });
    const head = data.head;
    section.querySelector("tbody").replaceChildren(...order(answer).filter((each) => wants.spot || !each.row.spot).map((each) => {
      const line = make("tr", "", each === answer.pick ? "pick" : ""), name = make("th", each.row.device);
      name.scope = "row";
      const whole = each.seconds === undefined ? "–" : time(each);
      const texts = [each.row.fits, each.row.step, whole, cost(each), each.ruled_out ?? each.row.known];
      line.append(name, ...texts.map((text, place) => {
        const cell = make("td", text || "–", place < 4 ? "number" : "");
        cell.dataset.label = head[place + 1];
        return cell;
      }));
      return line;
    }));
    draw(section.querySelector("svg.chart"), data, answer);
    return answer;
  }
  // Points and bars move as the numbers do; answer's chart.py draws the picture first, with the same scales.
  function draw(svg, data, answer) {
    if (!svg) return;
    const shown = answer.options.filter((each) => each.ruled_out === null && each.usd !== undefined);
    const atLeast = (usd) => Math.max(usd, data.chart.least_usd);
    const times = shown.flatMap((each) => [each.seconds_low, each.seconds_high]);
    const costs = shown.flatMap((each) => [atLeast(each.usd_low), atLeast(each.usd_high)]);
    const scale = (values, first, last) => {
      const low = Math.log(Math.min(...values) / 1.15), span = Math.max(Math.log(Math.max(...values) * 1.15) - low, 0.5);
      return (value) => first + ((last - first) * (Math.log(value) - low)) / span;
    };
    const { wide, high, left, below, margin, right } = data.chart;
    const across = scale(times, left, wide - right), up = scale(costs, high - below, margin);
    const make = (tag, values, text) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const line = (kind, x1, y1, x2, y2) => make("line", { class: kind, x1, y1, x2, y2 });
    const label = (x, y, text, anchor, kind = "") => make("text", { class: kind, x, y, "text-anchor": anchor }, text);
    const parts = [], taken = [];
    const ticks = (names, values, place, apart) => names.reduce((found, each) => {
      const inside = Math.min(...values) / 1.1 <= each && each <= Math.max(...values) * 1.1 && place(each) > margin + 12;
      return inside && (!found.length || Math.abs(place(each) - place(found.at(-1))) >= apart) ? [...found, each] : found;
    }, []);
    for (const second of ticks(data.chart.times, times, across, data.chart.apart[0]))
      parts.push(line("grid", across(second), margin, across(second), high - below), label(across(second), high - below + 16, timeWords(second), "middle"));
    for (const usd of ticks(data.chart.costs, costs, up, data.chart.apart[1]))
      parts.push(line("grid", left, up(usd), wide - right, up(usd)), label(left - 6, up(usd) + 4, usd <= data.chart.least_usd ? "free" : digits(usd, 10), "end"));
    parts.push(label(left - 6, margin - 2, "USD", "end"), label(wide - right, high - 6, data.chart.axis, "end"));
    const { dot, letter, anchors, places } = data.chart;
    const key = (each) => [each === answer.pick ? 0 : 1, each.row.is_here ? 0 : 1, each.usd];
    const points = [...shown].sort((one, other) => (before(key(one), key(other)) ? -1 : 1)).map((each) => {
      const [x, y] = [across(each.seconds), up(atLeast(each.usd))];
      return { each, x, y, own: [x - dot, y - dot, x + dot, y + dot] };
    });
    taken.push(...points.map((point) => point.own));
    const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
    for (const { each, x, y, own } of points) {
      const pick = each === answer.pick, kind = `${pick ? "pick " : ""}${each.row.is_here ? "measured" : "forecast"}`;
      parts.push(line(`bar ${kind}`, across(each.seconds_low), up(atLeast(each.usd_low)), across(each.seconds_high), up(atLeast(each.usd_high))));
      const circle = make("circle", { class: kind, cx: x, cy: y, r: pick ? 6 : 4 });
      circle.append(make("title", {}, each.row.device));
      parts.push(circle);
      if (!each.on_front && !pick && points.length > data.chart.most_names) continue;
      const size = letter * each.row.device.length;
      for (const [right, down, anchor] of places) {
        const start = x + right - size * anchors[anchor], box = [start, y + down - 9, start + size, y + down + 2];
        const inside = left < box[0] && box[2] < wide && 0 < box[1] && box[3] < high - below + 4;
        if (!inside || taken.some((other) => other !== own && overlap(box, other))) continue;
        taken.push(box);
        parts.push(label(x + right, y + down, each.row.device, anchor, kind));
        break;
      }
    }
    svg.replaceChildren(...parts);
  }
  // `of` gives the data for what the form holds.
  function live(section, place, of) {
    const form = section.querySelector("form");
    form.hidden = false;
    if (restore(form, place)) show(section, of(form), form);
    form.addEventListener("input", () => { keep(form, place); show(section, of(form), form); });
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  function start() {
    document.querySelectorAll("section[data-live]").forEach((section, place) => {
      const data = JSON.parse(section.querySelector("script[type='application/json']").textContent);
      live(section, place, () => data);
    });
  }
  if (typeof document !== "undefined") start();
  return { decide, lines, live, timeWords, digits };
})();
