// The sentences of answer/words.py in a browser: its templates, filled with the facts of decision.js. The only place
// of a page that makes words; nothing reads one.
"use strict";
const sentences = (() => {
  const { HOUR, DAY, least, measureOf, savingInterval } = decision;
  const UNITS = [[1e-3, 1e-6, "µs"], [1, 1e-3, "ms"], [90, 1, "s"], [90 * 60, 60, "min"], [3 * DAY, HOUR, "h"], [730 * DAY, DAY, "days"]];

  const say = (template, values) => template.replace(/\{(\w+)(?::g)?\}/g, (_, name) => values[name] ?? "");
  const joined = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
  const percent = (share) => `${Math.round(100 * share)} %`;

  // Numbers as numbers.py writes them.
  const digits = (value, count) => Number(value.toPrecision(count)).toLocaleString("en-US", { maximumFractionDigits: 12 });
  function timeWords(seconds, rough = false, like = seconds) {
    const unit = UNITS.find(([limit]) => like < limit);
    return unit ? `${rough ? "about " : ""}${digits(seconds / unit[1], rough ? 1 : 2)} ${unit[2]}` : "years";
  }
  function usdWords(usd) {
    if (usd < 0.005) return usd > 0 ? "<0.01" : "0";
    return usd < 10 ? usd.toFixed(2) : Math.round(Number(usd.toPrecision(3))).toLocaleString("en-US");
  }
  function between(low, high, written) {
    const [first, last] = [written(low), written(high)];
    if (first === last) return "";
    const [number] = first.split(" "), [other, ...units] = last.split(" "), unit = units.join(" ");
    return ` [${number}–${other}${unit ? ` ${unit}` : ""}]`;
  }
  // Where a part of the time is to start the machine, apart: `16 s [14–19 s] + 7 min`.
  function timeOf(option, { limits, sentences: words }, interval = true) {
    const start = startMatters(option, limits) ? say(words.plus_start, { time: timeWords(option.row.start_time) }) : "";
    return begunOf(option, interval) + start;
  }
  function begunOf({ row, begun, begun_low, begun_high }, interval = true) {
    const ends = interval && !row.rough ? between(begun_low, begun_high, (end) => timeWords(end, false, begun)) : "";
    return timeWords(begun, row.rough) + ends;
  }
  const startMatters = ({ row, begun }, limits) => row.start_time > limits.near * begun;
  function startOf(option, { limits, sentences: words }) {
    const { start_time: time, start_log_sd } = option.row, half = Math.exp(limits.z80 * start_log_sd);
    const written = (end) => timeWords(end, false, time);
    return startMatters(option, limits) ? say(words.to_start, { time: timeWords(time) + between(time / half, time * half, written) }) : "";
  }
  function usdOf({ row, usd, usd_low, usd_high }, interval = true) {
    if (usd === undefined) return "–";
    const ends = interval && !row.rough ? between(usd_low, usd_high, usdWords) : "";
    return (row.rough && usd >= 0.1 ? "about " : "") + usdWords(usd) + ends;
  }

  const small = (value) => (value > 0 && value < 0.001 ? "<0.001" : digits(value, 2));
  const energyCell = ({ kwh, co2 }, words) => (kwh === undefined ? "–" : say(words.energy_cell, { kwh: small(kwh), kg: small(co2) }));
  // The energy or CO2 of the pick, where that decides.
  function energyOf({ kwh, kwh_low, kwh_high, co2, co2_low, co2_high }, by, words) {
    const used = { energy: [words.kwh, kwh_low, kwh, kwh_high], co2: [words.co2, co2_low, co2, co2_high] }[by];
    if (!used || kwh === undefined) return "";
    const [sentence, low, middle, high] = used, written = (value) => say(sentence, { number: small(value) });
    return say(words.used, { used: written(middle) + between(low, high, written) });
  }

  // The cells of a row, as answer/table.py has them.
  function fitsWords(row, words) {
    if (row.memory_taken === null) return row.fits === false ? words.fits_not : "";
    const memory = memoryOf(row, words);
    return row.memory_tight ? say(words.fits_tight, { memory }) : row.fits === false ? say(words.fits_no, { memory }) : memory;
  }
  function memoryOf({ memory_taken, memory }, words) {
    const [size, available] = [(memory_taken ?? 0) / 1e9, digits((memory ?? 0) / 1e9, 2)];
    const needed = size > 0 && size < 0.01 ? "<0.01" : digits(size, 2);
    return say(memory ? words.fits : words.fits_unknown, { needed, available });
  }
  function whyWords({ ruled_out }, words) {
    const { why, detail } = ruled_out;
    return (why === "time" && detail) || say(why === "left_out" ? words.left_out : words[`no_${why}`], ruled_out);
  }
  function cells(option, data, { here, pick, by, deadline }) {
    const { row, seconds } = option, one = here?.row.step_time ? here.row : pick?.row;
    const speed = one?.step_time && row.step_time ? digits((one.step_time / one.times) / (row.step_time / row.times), 2) : "–";
    const step = row.step_time ? timeWords(row.step_time, row.rough) : "–";
    const isLate = by === "cost" && !data.operation && option.in_time < data.limits.in_time;
    const known = option.ruled_out ? whyWords(option, data.sentences)
      : isLate ? say(data.sentences.ends_late, { time: timeWords(deadline) }) : row.known;
    return [row.device, fitsWords(row, data.sentences), step, speed, seconds === undefined ? "–" : timeOf(option, data), usdOf(option), energyCell(option, data.sentences), known];
  }

  // The lines above the table; the first is the decision.
  function lines(data, wants, answer) {
    if (!answer.pick) return data.nowhere ?? nothing(data, answer);
    const parts = [decisionLine, why, priceTurn, either, fastestLine, withMoreTime, waiting, tight, free, avoid];
    return parts.map((part) => part(data, wants, answer)).filter(Boolean).slice(0, data.limits.max_lines);
  }

  function nothing(data, { options }) {
    const reasons = new Map(), words = data.sentences;
    for (const option of options) {
      if (option.ruled_out.why === "spot") continue; // its card is there without that, too
      const text = whyWords(option, words);
      reasons.set(text, [...(reasons.get(text) ?? []), option.row.card]);
    }
    const whole = [...reasons].map(([text, names]) => say(words.why, { devices: joined([...new Set(names)]), why: text })).join("; ");
    return [say(words.nothing, { workload: data.workload, reasons: whole })];
  }

  function decisionLine(data, wants, { pick, here, toss_up }) {
    const { row } = pick, words = data.sentences, cost = pick.usd === undefined ? words.no_cost : say(words.cost, { usd: usdOf(pick) });
    if (data.operation) {
      const hourly = pick.price === null ? "" : say(words.hourly, { usd: usdWords(pick.price) });
      return say(words.operation, { use: row.use, rate: row.rate, hourly, amount: wants.words, time: timeOf(pick, data), usd: cost });
    }
    let instead = "";
    if (!row.is_here && here)
      instead = here.seconds === undefined ? data.no_here : say(words.instead, { time: timeOf(here, data, false), where: data.where });
    const power = row.price_kind === "electricity" ? words.electricity : "";
    const use = toss_up.length ? say(words.as_good, { use: row.use }) : row.use;
    return say(words.decision, { use, time: begunOf(pick), start: startOf(pick, data), instead, usd: cost + power + energyOf(pick, wants.by, words) });
  }

  // Why this one, and how sure that is.
  function why(data, wants, { options, pick, by, cheapest, matters, late, toss_up, regret_at_most }) {
    const words = data.sentences, limits = data.limits, choices = options.filter((option) => option.ruled_out === null);
    if (choices.length === 1) return words.alone;
    if (!matters) {
      const share = `${100 * limits.near} %`;
      const apart = pick.seconds * limits.near > limits.near_seconds ? share : `${limits.near_seconds / 60} min`;
      const more = (pick.usd ?? 0) * limits.near > limits.near_usd ? share : say(words.usd, { usd: limits.near_usd.toFixed(2) });
      return say(words.no_matter, { count: choices.length, apart, more });
    }
    const byDeadline = by !== "time" && !data.operation;
    const timely = byDeadline ? choices.filter((option) => option.in_time >= limits.in_time) : choices, only = timely.length === 1;
    const near = by === "cost" && !wants.hour_usd && timely.some((option) => option.usd < (pick.usd ?? 0));
    const isNear = by !== "time" && timely.some((option) => measureOf(option, by) < measureOf(pick, by));
    const used = by === "energy" || by === "co2" ? words[`${isNear ? "near" : "least"}_${by}`] : null;
    const most = only ? words.only : used ?? (near ? words.near : by === "cost" ? words.cheapest : words.fastest_of_all);
    let among = say(words.among, { count: only ? choices.length : timely.length });
    if (late) among += say(words.none_in_time, { time: timeWords(wants.deadline) });
    else if (byDeadline) among += say(only ? words.ends_in_time : words.in_time, { time: timeWords(wants.deadline) });
    if (!late && by === "cost" && wants.hour_usd) among += say(words.waiting, { usd: hourWords(wants.hour_usd) });
    const chance = percent(pick.sure);
    if (pick.sure >= limits.sure) return say(pick.sure >= limits.certain ? words.sure : words.nearly_sure, { most, among, chance });
    if (by !== "time" && pick.in_time < limits.sure && pick.in_time - pick.sure < limits.late)
      return say(words.late, { most, among, chance: percent(pick.in_time) });
    const saves = used ? say(by === "energy" ? words.kwh : words.co2, { number: small(regret_at_most) })
      : by === "cost" ? say(words.usd, { usd: usdWords(regret_at_most) }) : timeWords(regret_at_most);
    if (toss_up.length) return say(words.toss_up, { among, devices: joined(toss_up.map((option) => option.row.device)), saves });
    return say(words.probably, { most: most.toLowerCase(), among, chance, saves });
  }

  // The price of the pick up to which it is the cheapest, and what is beyond that.
  function priceTurn(data, wants, { pick, price_turns, matters, options }) {
    const turn = price_turns?.find(({ device }) => device === pick.row.device);
    if (!turn || !matters || turn.usd_per_hour > data.limits.turns_near * pick.price) return "";
    const [low, high] = [usdWords(pick.price_low), usdWords(pick.price_high)], words = data.sentences;
    const above = options.find(({ row }) => row.device === turn.above).row.called;
    const now = low === high ? low : say(words.range, { low, high });
    return say(words.price_turn, { device: pick.row.called, usd: usdWords(turn.usd_per_hour), now, above });
  }

  // The other choice where the pick is not sure, and what tells them apart.
  function either(data, wants, { pick, rival, matters }) {
    if (!rival || !matters || rival.row.device === pick.row.card) return ""; // of a free one the paid one has its line
    const words = data.sentences, apart = [];
    const [mine, other] = [pick.row.memory, rival.row.memory];
    if (Math.abs(Math.log(rival.seconds / pick.seconds)) > data.limits.near) apart.push(say(words.takes, { time: timeOf(rival, data, false) }));
    if (rival.usd !== undefined && pick.usd !== undefined && usdWords(rival.usd) !== usdWords(pick.usd))
      apart.push(say(words.costs, { usd: usdOf(rival, false) }));
    if (mine && other && Math.abs(Math.log(mine / other)) > 0.2)
      apart.push(say(words.memory, { mine: (mine / 1e9).toFixed(0), other: (other / 1e9).toFixed(0) }));
    return say(words.rival, { device: rival.row.device, apart: apart.join(", ") || words.same });
  }

  function fastestLine(data, wants, { pick, fastest, turning }) {
    const { near, near_seconds } = data.limits, words = data.sentences;
    if (fastest === pick || pick.seconds < Math.max(fastest.seconds * (1 + near), fastest.seconds + near_seconds)) return "";
    const more = turningWords(turning, fastest, data);
    return say(words.fastest, { device: fastest.row.device, time: timeOf(fastest, data), usd: usdOf(fastest, false), more });
  }
  // From which price of an hour of waiting on the fastest is the pick, and others on the way to it.
  function turningWords(turning, fastest, { limits, sentences: words }) {
    const points = turning.map(({ hour_usd, device }) => ({ usd: hourWords(hour_usd), device })), last = points.at(-1);
    if (last?.device !== fastest.row.device) return "";
    if (points.length === 1) return say(words.more, last);
    const named = points.slice(0, limits.max_turns), left = points.length - named.length;
    const parts = named.map((point, place) => say(place ? words.turning_on : words.turning, point));
    if (left) parts.push(say(left === 1 ? words.turning_on : words.turning_at_last, { ...last, count: left - 1 }));
    return parts.join("");
  }
  const hourWords = (usd) =>
    usd < 10 ? (Math.ceil(usd * 100 - 1e-6) / 100).toFixed(2) : Math.ceil(usd).toLocaleString("en-US");

  // A choice that is cheaper and ends after the deadline.
  function withMoreTime(data, wants, { pick, cheapest }) {
    if (!cheapest || cheapest === pick || wants.by !== "cost" || cheapest.in_time >= data.limits.in_time) return "";
    const days = Math.ceil(cheapest.seconds_high / DAY);
    if (days > 365 || (pick.usd ?? 0) - cheapest.usd < data.limits.near_usd) return "";
    return say(data.sentences.more_time, { device: cheapest.row.device, time: timeOf(cheapest, data, false), usd: usdOf(cheapest, false), days });
  }

  const waiting = (data, wants, { pick }) => pick.row.waits;

  // Where the pick may turn out to be too small, the best choice that is not.
  function tight(data, wants, { options, pick }) {
    if (!pick.row.memory_tight) return "";
    const others = options.filter((option) => option.ruled_out === null && !option.row.memory_tight);
    const timely = others.filter((option) => option.in_time >= data.limits.in_time);
    const other = least(timely.length ? timely : others, (option) => [option.usd ?? Infinity]);
    const room = other ? say(data.sentences.room, { device: other.row.device, time: timeOf(other, data, false), usd: usdOf(other, false) }) : "";
    return say(data.sentences.tight, { memory: memoryOf(pick.row, data.sentences), room });
  }

  // For a pick that is free or spot: the cheapest that is rented in time, or the same card on demand, and whether a session is long enough.
  function free(data, wants, { options, pick }) {
    const { row } = pick, words = data.sentences, hours = row.session_hours, week = row.week_hours;
    if (row.price_kind !== "free" && row.price_kind !== "spot") return "";
    let session = hours ? say(words.session, { hours }) : "";
    if (hours && pick.times_taken)
      session += (week ? say(words.week, { hours: week }) : "") + say(words.keep, { count: pick.times_taken + 1 });
    const isRented = (option) => option.ruled_out === null && option.in_time >= data.limits.in_time && option.usd > 0
      && !option.row.is_here && option.row.price_kind !== "free" && option.row.price_kind !== "spot";
    const rented = options.filter(isRented).sort((one, two) => one.usd - two.usd);
    const other = row.spot ? options.find((option) => option.row.device === row.card) : rented[0];
    const paid = other?.usd === undefined ? "" : say(row.spot ? words.on_demand : words.paid, {
      device: other.row.device, time: timeOf(other, data, false), usd: usdOf(other, false), provider: other.row.provider,
    });
    if (!row.spot) return say(words.free, { session, paid });
    const save = saving(data, pick), assumed = data.assumed ? words.assumed : "";
    return say(words.spot, { rate: percent(row.taken_rate), assumed, save, paid });
  }
  function saving(data, { row, seconds, unsaved: without }) {
    const words = data.sentences, each = row.taken_rate ? savingInterval(row, data.limits) : Infinity;
    if (each >= seconds) return "";
    const unsaved = without > data.limits.hopeless * seconds ? say(words.unsaved, { time: timeWords(without, true) }) : "";
    return say(words.save, { interval: timeWords(each), unsaved });
  }

  function avoid(data, wants, { pick, avoid: option }) {
    return option ? say(data.sentences.avoid, { device: option.row.device, usd: usdWords(option.usd), pick: pick.row.device }) : "";
  }

  return { lines, cells, timeWords, usdWords, digits, say };
})();
