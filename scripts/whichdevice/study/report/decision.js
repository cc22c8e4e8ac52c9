// The decision of answer/decide.py in a browser: the same functions under the same names, for what a reader types.
// tests/report/test_decision.py holds both equal on random work. A page gives the facts: `data` has rows, the order of
// their normal numbers and the limits; `wants` has units, epochs, by, deadline, budget, only_free, spot, hour_usd, and
// exact prices and devices left out by their names. Nothing here knows a sentence or a page.
"use strict";
const decision = (() => {
  const HOUR = 3600, DAY = 24 * HOUR, WEEK = 7 * DAY;

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  function quantile(values, share) {
    const sorted = Float64Array.from(values).sort(), place = share * (sorted.length - 1), below = Math.floor(place);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
  }
  // Whether a list of numbers comes before another one.
  function isBefore(one, other) {
    const place = one.findIndex((value, n) => value !== other[n]);
    return place >= 0 && one[place] < other[place];
  }
  // The first of several with the least key; null of none.
  const least = (options, key) =>
    options.reduce((best, option) => (best === null || isBefore(key(option), key(best)) ? option : best), null);

  // Normal numbers of a part of the error: their places as forecast/joint.py has them, then the mirror image.
  function normal(normals, ...key) {
    const half = normals.orders[key.join("|")].map((place) => normals.values[place]);
    return [...half, ...half.map((value) => -value)];
  }

  // Step times in seconds of each row, null without one: the larger of the device's, the host's and the pipeline's.
  function draws(rows, normals, limits, isFed) {
    return rows.map((row) => {
      if (!row.step_time) return null;
      const shared = normal(normals, "shared", row.software), chip = normal(normals, "own", row.software, row.chip);
      const form = row.market === row.chip ? null : normal(normals, "form", row.software, row.market);
      const sdOfForm = form ? Math.min(limits.form_sd, limits.max_form * row.log_sd_own) : 0;
      const sdOfChip = Math.sqrt(row.log_sd_own ** 2 - sdOfForm ** 2);
      const least = isFed ? floorOf(row, normals) : () => 0;
      const host = row.host_time ? normal(normals, "host", row.software) : null;
      return shared.map((z, n) => {
        let log = Math.log(row.device_time) + (row.log_sd_shared * z + sdOfChip * chip[n] + (form ? sdOfForm * form[n] : 0));
        if (host) log = Math.max(log, Math.log(row.host_time) + row.host_log_sd * host[n]);
        return Math.exp(Math.round(Math.max(log, Math.log(least(n))) * limits.digits) / limits.digits);
      });
    });
  }

  // Seconds of the pipeline for a step's batch, by draw.
  function floorOf({ floor: [least, sd] = [0, 0] }, normals) {
    const slow = sd ? normal(normals, "start") : [];
    return (n) => least * Math.exp(sd * (slow[n] ?? 0));
  }

  // How many of each period in which evaluations come there are in a step; `epochs` is null where none are asked for.
  function periods(row, { units, epochs }) {
    const steps = units / row.units || 1;
    return { step: 1, epoch: epochs === null ? row.written_epochs : epochs / steps, training: 1 / steps };
  }

  // A script's evaluation for each step: its time over the step's, and its examples over the step's.
  function evaluated(parts, counts) {
    return [0, 1].map((place) => Object.entries(parts).reduce((sum, [per, part]) => sum + counts[per] * part[place], 0));
  }

  // Steps of a script as people run them, each with its part of the evaluation; a measured device's are as measured.
  function livedDraws(data, steps, wants) {
    const { rows, normals, limits, lived, between } = data;
    if (!lived) return steps.map((own) => own && own.map((step) => step + between));
    const clean = draws(rows, normals, limits, false), luck = normal(normals, "lived");
    const floors = rows.map((row) => floorOf(row, normals));
    const times = luck.map((z) => Math.exp(Math.round(lived * z * limits.digits) / limits.digits));
    const parts = rows.map((row) => evaluated(row.evaluated ?? {}, periods(row, wants)));
    return steps.map((own, place) => own && own.map((step, n) => {
      const { is_here, lived: more } = rows[place], [share, fed] = parts[place], floor = floors[place](n);
      const one = is_here ? step : clean[place][n] * more * times[n];
      return (is_here ? step : Math.max(one, floor)) + Math.max(one * share, fed * floor) + between;
    }));
  }

  // The reader's price of a row, which is exact: of one device, times their number.
  const ownPrice = ({ priced: [count, name] }, wants) => (name in (wants.prices ?? {}) ? count * wants.prices[name] : null);

  // Prices of an hour of each row, null without one; all are of the same market.
  function priceDraws(rows, normals, limits, wants) {
    const market = normal(normals, "market");
    return rows.map((row) => {
      const own = ownPrice(row, wants);
      if (!row.step_time || (own ?? row.usd_per_hour) === null) return null;
      if (own !== null) return market.map(() => own);
      const card = normal(normals, "price", row.market);
      return market.map((z, n) => {
        const log = row.usd_log_sd_shared * z + row.usd_log_sd_own * card[n];
        return row.usd_per_hour * Math.exp(Math.round(log * limits.digits) / limits.digits);
      });
    });
  }

  // Seconds until the work begins, in each draw: all starts are slow together.
  function startDraws(row, normals, limits) {
    if (!row.start_log_sd) return Array(normals.values.length * 2).fill(row.start_time);
    const log = (z) => Math.round(row.start_log_sd * z * limits.digits) / limits.digits;
    return normal(normals, "start").map((z) => row.start_time * Math.exp(log(z)));
  }

  // Seconds of work between two checkpoints of a machine that is taken away; see answer/interruptions.py.
  const saveTime = ({ state_time }, limits) => limits.save_time + state_time, loadTime = (row) => row.start_time + row.state_time;
  function savingInterval(row, limits) {
    const between = HOUR / row.taken_rate, save = saveTime(row, limits), half = Math.sqrt(save / (2 * between));
    return half >= 1 ? between : Math.sqrt(2 * save * between) * (1 + half / 3 + half ** 2 / 9) - save;
  }

  // Expected seconds that are billed for so much work, and the spread of their logarithm.
  function billed(work, row, each, limits) {
    const rate = row.taken_rate / HOUR, most = limits.max_power, load = loadTime(row);
    const length = Math.min(work, each) + (work > each ? saveTime(row, limits) : 0), parts = Math.max(work / each, 1);
    const expected = (parts * Math.expm1(Math.min(rate * length, most)) * Math.exp(Math.min(rate * load, most / 2))) / rate;
    const lostSquares = load ** 2 + load * length + length ** 2 / 3;
    return [expected, Math.sqrt(Math.log1p((rate * lostSquares) / expected))];
  }

  function sessions(working, start, row, limits) {
    const all = (row.session_hours ?? Infinity) * HOUR;
    const useful = Math.max(all - loadTime(row) - saveTime(row, limits), HOUR / 60);
    return working > all ? Math.ceil((working - start) / useful) : 1;
  }

  // Seconds that are billed, and until all is done, with what is lost to machines that go and to ends of sessions. A free
  // machine that gives some hours in a week is waited for where the work takes more.
  function withEnds(working, starts, row, normals, limits) {
    let running = working, waiting = working.map(() => 0);
    if (row.session_hours) {
      const again = saveTime(row, limits) + loadTime(row);
      running = running.map((time, n) => time + (sessions(working[n], starts[n], row, limits) - 1) * again);
    }
    if (row.taken_rate) {
      const luck = normal(normals, "taken"), each = savingInterval(row, limits);
      running = working.map((time, n) => {
        const [expected, sd] = billed(time - starts[n], row, each, limits);
        return starts[n] + expected * Math.exp(sd * luck[n] - sd ** 2 / 2);
      });
      waiting = running.map((time) => (time * row.taken_rate) / HOUR * limits.back_time);
    }
    const week = Math.min((row.week_hours ?? Infinity) * HOUR, WEEK);
    const pause = (time) => (time > week ? Math.floor(time / week) * (WEEK - week) : 0);
    return [running, running.map((time, n) => time + waiting[n] + pause(time))];
  }

  // Kilowatt-hours and kg of CO2 in each draw.
  function energyDraws(row, running, normals) {
    if (row.watts === null) return [null, null];
    const power = normal(normals, "price", row.market), grid = normal(normals, "market"); // nothing has a price, too
    const kwh = running.map((time, n) => (row.watts * Math.exp(row.watts_log_sd * power[n]) * time) / 3.6e6);
    return [kwh, kwh.map((one, n) => (one * row.grid * Math.exp(row.grid_log_sd * grid[n])) / 1000)];
  }

  function optionOf(row, steps, prices, wants, { limits, normals }) {
    const own = ownPrice(row, wants), price = own ?? row.usd_per_hour, exact = own !== null;
    const half = exact ? 1 : Math.exp(limits.z80 * Math.hypot(row.usd_log_sd_shared, row.usd_log_sd_own));
    const hour = { price, price_low: price / half, price_high: price * half };
    if (!steps) return { row, ...hour, ruled_out: null };
    const starts = startDraws(row, normals, limits);
    const working = steps.map((step, n) => starts[n] + (wants.units / row.units) * step * (1 + row.prompts)); // and the prompts of what is generated
    const [running, times] = withEnds(working, starts, row, normals, limits);
    const result = { row, ...hour, running, times, costs: null, cost: NaN, time: mean(times), ruled_out: null };
    const session = wants.only_free ? Infinity : (row.session_hours ?? Infinity) * HOUR; // beyond it is as bad as late
    result.late = times.map((time, n) => time > wants.deadline || working[n] > session);
    result.in_time = mean(result.late.map((isLate) => (isLate ? 0 : 1)));
    const ends = (name, values) =>
      [result[`${name}_low`], result[name], result[`${name}_high`]] = limits.quantiles.map((share) => quantile(values, share));
    [result.kwhs, result.co2s] = energyDraws(row, running, normals);
    if (result.kwhs) { ends("kwh", result.kwhs); ends("co2", result.co2s); }
    const middle = quantile(working, 0.5);
    result.times_taken = row.session_hours ? sessions(middle, row.start_time, row, limits) - 1 : 0;
    if (row.taken_rate) result.unsaved = billed(middle - row.start_time, row, Infinity, limits)[0];
    ends("seconds", times);
    ends("begun", times.map((time, n) => time - starts[n]));
    if (price === null) return result;
    result.costs = running.map((time, n) => (prices[n] * time) / HOUR);
    result.cost = mean(result.costs);
    ends("usd", result.costs);
    return result;
  }

  // Why a row is no choice, as a fact: what decides, with its limit.
  function ruledOut({ row, seconds, usd, kwh }, wants) {
    if (wants.without?.includes(row.device)) return { why: "left_out" };
    if (row.too_small) return { why: row.memory_tight ? "tight" : "fits" };
    if (seconds === undefined) return { why: "time", detail: row.reason };
    if (row.spot && !wants.spot) return { why: "spot" };
    if (row.port && !wants.port) return { why: "port" };
    if ((wants.by === "energy" || wants.by === "co2") && kwh === undefined) return { why: "power" };
    if (usd === undefined) return wants.by === "cost" || wants.budget !== null ? { why: "price" } : null;
    if (wants.only_free && usd > 0 && !row.is_here) return { why: "free" };
    if (wants.budget !== null && usd > wants.budget) return { why: "budget", usd: wants.budget };
    if (row.session_hours && seconds > row.session_hours * HOUR && !wants.only_free)
      return { why: "session", hours: row.session_hours };
    return null;
  }

  // Sets why each is no choice. What nobody rents out is one by its time where nothing else is left.
  function judge(options, wants) {
    for (const option of options) option.ruled_out = ruledOut(option, wants);
    if (wants.budget !== null || options.some((option) => option.ruled_out === null)) return;
    for (const option of options) if (option.ruled_out.why === "price") option.ruled_out = null;
  }

  // What decides, in each draw: USD of the whole work with what waiting costs, kilowatt-hours, kg of CO2 or seconds.
  function valueOf({ costs, times, kwhs, co2s }, by, hourUsd) {
    if (by !== "cost") return { time: times, energy: kwhs, co2: co2s }[by];
    return costs && costs.map((cost, n) => cost + (hourUsd * times[n]) / HOUR);
  }

  // The one of the least USD with those that waiting costs: none slower than where waiting costs nothing.
  function pick(pool, by, hourUsd, limits, costOf = (option) => option.cost) {
    if (by !== "cost" || !hourUsd) return pickNear(pool, by, hourUsd, limits, costOf, limits.near);
    const { time } = pickNear(pool, by, 0, limits, costOf, limits.near);
    return pickNear(pool.filter((option) => !(option.time > time)), by, hourUsd, limits, costOf, 0);
  }

  // The least expected cost; of several that are nearly the same the fastest, then the one here or the cheapest.
  // Shares of the cost below `share` do not count. Where time decides, time comes before cost.
  function pickNear(pool, by, hourUsd, limits, costOf, share) {
    const used = { energy: "kwhs", co2: "co2s" }[by], time = (option) => option.time;
    const cost = used ? (option) => mean(option[used]) : (option) => costOf(option) + (hourUsd * option.time) / HOUR;
    const costFirst = [[cost, share, limits.slack[by]], [time, limits.near, limits.near_seconds]];
    let near = pool;
    for (const [measure, nearly, slack] of by === "time" ? [...costFirst].reverse() : costFirst) {
      const known = near.map(measure).filter((value) => !Number.isNaN(value));
      const lowest = known.length ? Math.min(...known) : 0, highest = Math.max(lowest * (1 + nearly), lowest + slack);
      const kept = near.filter((option) => !(measure(option) > highest));
      if (kept.length) near = kept;
    }
    const here = near.filter((option) => option.row.is_here);
    // Of the same cost a GPU before a TPU, which needs other software.
    const key = (option) => [
      Number.isNaN(cost(option)) ? 1 : 0, cost(option) || 0, option.row.kind === "tpu" ? 1 : 0, time(option),
    ];
    return least(here.length ? here : near, key);
  }

  // Sets of each choice how often nothing is better, and what the best would save: in each draw and expected.
  // A choice that ends too late is worse than any that does not.
  function chances(chosen, by, wants, limits) {
    const count = chosen[0].times.length, slack = by === "time" ? limits.near_seconds : limits.slack[by];
    const worth = chosen.map((option) => valueOf(option, by, wants.hour_usd));
    const kept = chosen.map(() => 0);
    for (const option of chosen) option.saved = new Float64Array(count);
    for (let n = 0; n < count; n++) {
      const late = chosen.map((option) => by !== "time" && option.late[n]);
      const allLate = late.every(Boolean), values = worth.map((value) => (value ? value[n] : Infinity));
      const best = Math.min(...values.filter((_, place) => allLate || !late[place]));
      const highest = Math.max(best * (1 + limits.near), best + slack);
      values.forEach((value, place) => {
        if (value <= highest && (allLate || !late[place])) kept[place] += 1;
        if (Number.isFinite(value)) chosen[place].saved[n] = Math.max(value - best, 0);
      });
    }
    chosen.forEach((option, place) => {
      option.sure = kept[place] / count;
      option.regret = mean(option.saved);
    });
  }

  // Where the pick changes as an hour of waiting costs more.
  function turning(pool, hourUsd, limits) {
    const at = (price) => pick(pool, "cost", price, limits), points = [];
    const look = (low, high, first, last) => {
      if (first === last) return;
      if (high - low <= limits.point * Math.max(high, 1)) {
        points.push({ hour_usd: high, device: last.row.device });
        return;
      }
      const middle = high < 2 * Math.max(low, 1) ? (low + high) / 2 : Math.sqrt(Math.max(low, 0.1) * high), between = at(middle);
      look(low, middle, first, between);
      look(middle, high, between, last);
    };
    look(hourUsd, limits.dearest_hour, at(hourUsd), at(limits.dearest_hour));
    return points;
  }

  // What decides between these choices, and those that the pick is one of.
  function contest(chosen, data, wants) {
    const timely = chosen.filter((option) => option.in_time >= data.limits.in_time);
    const isAble = wants.by !== "cost" || chosen.some((option) => option.costs);
    const by = isAble && (timely.length || data.operation) ? wants.by : "time";
    return { by, pool: by !== "time" && timely.length ? timely : chosen };
  }

  // Prices from which on the pick, and other choices on the front, no longer are the pick.
  function priceTurns(best, pool, chosen, data, wants) {
    const { price_factor, price_point } = data.limits;
    const pickedAt = (option, price) => {
      const isDear = wants.budget !== null && (price * quantile(option.running, 0.5)) / HOUR > wants.budget;
      const able = isDear ? chosen.filter((other) => other !== option) : chosen, cost = (price * mean(option.running)) / HOUR;
      if (!able.length) return null;
      const next = contest(able, data, wants);
      const isSame = ({ row }) => row.market === option.row.market && row.price_kind === option.row.price_kind;
      const costAt = (other) => (other === option ? cost : isSame(other) ? (other.cost * price) / option.price : other.cost);
      return pick(next.pool, next.by, wants.hour_usd, data.limits, costAt);
    };
    const others = pool.filter((option) => option !== best && option.on_front), turns = [];
    others.sort((one, other) => (one.usd ?? Infinity) - (other.usd ?? Infinity));
    for (const option of [best, ...others]) {
      if (option.row.is_here || !option.price) continue;
      let low = option.price / (option === best ? 1 : price_factor), high = option.price * price_factor;
      if (pickedAt(option, low) !== option || pickedAt(option, high) === option) continue;
      while (high > low * (1 + price_point)) {
        const middle = Math.sqrt(low * high);
        if (pickedAt(option, middle) === option) low = middle; else high = middle;
      }
      const above = pickedAt(option, high);
      if (above) turns.push({ device: option.row.device, usd_per_hour: low, above: above.row.device });
    }
    return turns;
  }

  // The choices that it is between, likeliest first, where none has an even chance.
  function tossUp(best, pool, limits) {
    if (best.sure >= limits.toss_up) return [];
    const near = pool.filter((option) => option !== best && option.sure >= best.sure / 2);
    return [best, ...near.sort((one, other) => other.sure - one.sure).slice(0, 3)];
  }

  // Whether no choice is both cheaper and faster.
  function onFront(option, chosen) {
    return option.usd === undefined || !chosen.some((other) => other.usd < option.usd && other.seconds < option.seconds);
  }

  const measureOf = (option, by) => option[{ cost: "usd", time: "seconds", energy: "kwh", co2: "co2" }[by]];

  // Whether it takes noticeably longer, costs noticeably more, or more of what decides.
  function isWorse(option, best, by, limits) {
    const over = (value, base, slack) => value > Math.max(base * (1 + limits.near), base + slack);
    const isMore = (by === "energy" || by === "co2") && over(measureOf(option, by), measureOf(best, by), limits.slack[by]);
    return over(option.seconds, best.seconds, limits.near_seconds) || over(option.usd ?? 0, best.usd ?? 0, limits.near_usd) || isMore;
  }

  // The dearest of those that are slower, too, and cost twice as much.
  function toAvoid(best, choices, limits) {
    const dear = Math.max(2 * (best.usd ?? 0), (best.usd ?? 0) + limits.avoid_usd);
    const worse = choices.filter(({ row, seconds, usd }) => seconds > best.seconds && usd > dear && row.card !== best.row.card);
    return least(worse, (option) => [-option.usd]);
  }

  // The pick, then choices by cost or time, then those without a price, then what is ruled out.
  function ordered(options, by, best = null) {
    const measure = (option) => measureOf(option, by);
    const key = (option) => [option === best ? 0 : 1, option.ruled_out === null ? 0 : 1,
      measure(option) === undefined ? 1 : 0, measure(option) ?? 0, option.seconds ?? 0];
    const keys = new Map(options.map((option) => [option, key(option)]));
    return [...options].sort((one, other) => {
      if (isBefore(keys.get(one), keys.get(other))) return -1;
      return isBefore(keys.get(other), keys.get(one)) ? 1 : 0;
    });
  }

  function decide(data, wants) {
    const limits = data.limits;
    const steps = draws(data.rows, data.normals, limits, true);
    const lived = livedDraws(data, steps, wants), prices = priceDraws(data.rows, data.normals, limits, wants);
    const options = data.rows.map((row, place) => optionOf(row, lived[place], prices[place], wants, data));
    judge(options, wants);
    const chosen = options.filter((result) => result.ruled_out === null), here = options[data.here] ?? null;
    if (!chosen.length) return { options: ordered(options, "time"), pick: null, here, by: "time", matters: true };
    const priced = chosen.filter((result) => result.usd !== undefined);
    const timely = chosen.filter((result) => result.in_time >= limits.in_time);
    const { by, pool } = contest(chosen, data, wants);
    const best = pick(pool, by, wants.hour_usd, limits);
    chances(chosen, by, wants, limits);
    for (const result of chosen) result.on_front = onFront(result, chosen);
    const matters = chosen.some((result) => isWorse(result, best, by, limits));
    return {
      options: ordered(options, by, best), pick: best, here, by, matters, deadline: wants.deadline,
      late: wants.by !== "time" && !data.operation && !timely.length,
      toss_up: matters ? tossUp(best, data.operation ? chosen : pool, limits) : [],
      turning: by === "cost" ? turning(pool, wants.hour_usd, limits) : [],
      price_turns: by === "cost" ? priceTurns(best, pool, chosen, data, wants) : [],
      regret_at_most: quantile(best.saved, 0.9),
      fastest: least(chosen, (result) => [result.seconds, result.usd ?? Infinity]),
      cheapest: least(priced, (result) => [result.usd]),
      rival: best.sure < limits.likely ? least(pool.filter((result) => result !== best), (result) => [-result.sure]) : null,
      avoid: toAvoid(best, pool.filter((result) => !result.row.is_here), limits),
    };
  }

  return { decide, draws, least, measureOf, savingInterval, HOUR, DAY };
})();
