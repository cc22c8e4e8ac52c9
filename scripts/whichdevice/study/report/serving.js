// Servers for a load in a browser: the decision of answer/serving.py, the words of answer/serving_words.py and the
// pictures of report/serving_pictures.py, for the load, lengths and times that the reader types.
"use strict";
const serving = (() => {
  const { say, digits, timeWords, usdWords } = sentences, MILLION = 1e6, HOUR = 3600;
  const first = (list, key) => list.reduce((best, one) => (best === null || key(one) < key(best) ? one : best), null);
  const geometric = (low, high, count) => Array.from({ length: count }, (_, place) => low * (high / low) ** (place / (count - 1)));

  // Servers at a load.

  function between(value, places, values) {
    const after = places.findIndex((place) => place >= value);
    if (after === 0 || value <= places[0]) return values[0];
    if (after < 0) return values.at(-1);
    const share = (value - places[after - 1]) / (places[after] - places[after - 1]);
    return values[after - 1] + share * (values[after] - values[after - 1]);
  }
  function countUpTo(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle + 1; else high = middle;
    }
    return low;
  }
  // The largest requests a second in time, in each draw: report/serving_live.py says what `at` holds.
  function capacities(data, known, at, load) {
    const loads = data.loads.map(Math.log), shares = geometric(data.loads[0], data.full, data.shares);
    const [, full, , , , , ...curves] = at, count = data.loads.length;
    const worst = [curves.slice(0, count), curves.slice(count)].map((curve) => {
      let most = -Infinity;
      return shares.map((share) => (most = Math.max(most, between(Math.log(share), loads, curve))));
    });
    let log = 0;
    const slowness = known.slow.map((step) => (log += step) / data.steps_of_slowness);
    return slowness.map((slow) => {
      const places = [load.ttft, load.tpot].map((target, kind) => countUpTo(worst[kind], Math.log(target) - slow));
      const share = Math.min(data.full, ...places.map((place) => (place > 0 ? shares[place - 1] : 0)));
      return (share * full) / Math.exp(slow);
    }).sort((one, other) => one - other);
  }
  function serverAt(data, known, load) {
    const at = known.at[data.prompts.indexOf(load.prompt) * data.answers.length + data.answers.indexOf(load.answer)];
    const none = { fits: false, capacity: [], one_user: [0, 0, 0], first_token: Infinity, max_requests: 0 };
    if (!at) return { ...known, ...none };
    const [max_requests, , low, middle, high, first_token] = at;
    return { ...known, fits: true, capacity: capacities(data, known, at, load), one_user: [low, middle, high], first_token, max_requests };
  }

  // The decision.

  function quantile({ capacity }, share) {
    if (!capacity.length) return 0;
    const place = share * (capacity.length - 1), low = Math.floor(place), next = capacity[Math.min(low + 1, capacity.length - 1)];
    return capacity[low] + (place - low) * (next - capacity[low]);
  }
  function decide(data, servers, load) {
    const { limits } = data, safeOf = new Map(servers.map((server) => [server, quantile(server, 1 - limits.sure)]));
    function serversFor(server, rps) {
      const safe = safeOf.get(server);
      if (rps === null) return safe > 0 ? 1 : null;
      const needed = safe > 0 ? rps / safe - 1e-9 : Infinity;
      return needed <= server.most_servers ? Math.ceil(needed) : null;
    }
    function usdFor(server, rps) {
      const count = serversFor(server, rps);
      return count === null || !server.price ? Infinity : count * server.price.usd;
    }
    function optionOf(server, rps) {
      const enough = serversFor(server, rps), safe = safeOf.get(server), isTooFew = enough === null && safe > 0;
      const count = enough || (isTooFew ? server.most_servers : 1), hour = server.price ? server.price.usd * count : null;
      const million = (tokens) => (hour === null || tokens <= 0 ? null : (hour / HOUR / tokens) * MILLION);
      const full = million(count * safe * load.answer), now = rps === null || enough === null ? full : million(rps * load.answer);
      const held = server.capacity.filter((most) => (rps === null ? most > 0 : count * most >= rps)).length;
      const sure = server.capacity.length ? held / server.capacity.length : null, devices = count * server.count;
      const name = devices === 1 ? server.device : `${devices} × ${server.device}`;
      return { server, servers: count, sure, usd_per_hour: hour, usd_million: now, usd_million_full: full, safe, name, holds: isTooFew ? count * safe : 0 };
    }
    const usd = (option) => option.usd_per_hour ?? Infinity;
    const isChoice = ({ server }) => Boolean(server.price) && server.price.bought_usd === null;
    function choicesOf(options) {
      const known = options.filter((option) => option.sure !== null);
      const able = [known.filter(isChoice), known.filter(({ server }) => server.price), known].find((some) => some.length) ?? [];
      const held = [limits.sure, limits.likely].map((least) => able.filter((option) => option.sure >= least)).find((some) => some.length);
      return (held ?? []).sort((one, other) => usd(one) - usd(other) || other.sure - one.sure);
    }
    function takeOver(pick, chosen) {
      const start = load.rps ?? pick.safe, isMine = (server) => server.device === pick.server.device;
      const others = chosen.filter((server) => !isMine(server)), mine = chosen.filter(isMine);
      if (!others.length || start <= 0 || pick.usd_per_hour === null) return null;
      for (const rps of geometric(start, start * limits.max_times, limits.steps)) {
        const best = first(others, (server) => usdFor(server, rps));
        const least = Math.min(...mine.map((server) => usdFor(server, rps)));
        if (usdFor(best, rps) < Infinity && usdFor(best, rps) <= limits.cheaper * least) return [rps, optionOf(best, rps)];
      }
      return null;
    }
    function apiOf([of_prompt, of_answer], chosen) {
      const request = (load.prompt * of_prompt + load.answer * of_answer) / MILLION;
      const most = Math.max(0, ...chosen.map((server) => safeOf.get(server) * server.most_servers));
      const cheaper = chosen.length && request > 0 ? geometric(1e-4, Math.max(most, 1e-3), limits.steps).find(
        (rps) => Math.min(...chosen.map((server) => usdFor(server, rps))) <= request * rps * HOUR) : undefined;
      return { usd_per_hour: load.rps === null ? null : request * load.rps * HOUR, cheaper_from: cheaper ?? null };
    }

    const options = servers.map((server) => optionOf(server, load.rps)), choices = choicesOf(options);
    const rest = options.filter((option) => !choices.includes(option)).sort((one, other) =>
      Number(!one.server.fits) - Number(!other.server.fits) || (other.sure ?? 0) - (one.sure ?? 0)
      || other.holds - one.holds || (usd(one) === usd(other) ? 0 : usd(one) - usd(other)));
    const answer = { load, options: [...choices, ...rest], pick: null, usdFor };
    if (!choices.length) {
      const fitting = options.filter(({ server }) => server.fits);
      const near = ({ sure, holds, server }) => [sure ?? 0, holds, server.one_user[1], -server.first_token];
      const isNearer = (one, other) => [0, 1, 2, 3].reduce((known, place) => known || one[place] - other[place], 0) > 0;
      const nearest = fitting.reduce((best, one) => (best === null || isNearer(near(one), near(best)) ? one : best), null);
      return { ...answer, nearest };
    }
    const [pick] = choices, rival = choices.find(({ server }) => server.device !== pick.server.device);
    const isNear = rival && pick.usd_per_hour !== null && usd(rival) <= limits.same * pick.usd_per_hour;
    return {
      ...answer, pick, rival: isNear ? rival : null, take_over: takeOver(pick, choices.map(({ server }) => server)),
      api: load.api ? apiOf(load.api, options.filter(isChoice).map(({ server }) => server)) : null,
    };
  }
  function bestOfEach({ options, pick }) {
    const best = new Map();
    for (const option of [...(pick ? [pick] : []), ...options]) if (!best.has(option.server.device)) best.set(option.server.device, option);
    const kept = new Set(best.values());
    return options.filter((option) => kept.has(option));
  }

  // Words.

  const two = (value) => digits(value, 2), usdOf = (usd) => (usd === null ? "–" : usdWords(usd)), gb = (nbytes) => two(nbytes / 1e9);
  const number = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : digits(value, 3));
  const even = (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));
  const share = (value) => (value > 0.99 ? "> 99 %" : `${even(100 * value)} %`);
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  function joined(names, words, most) {
    let some = [...new Set(names)];
    if (some.length > most) some = [...some.slice(0, most - 1), say(words.more_names, { count: some.length - most + 1 })];
    return some.length > 1 ? say(words.and, { first: some.slice(0, -1).join(", "), last: some.at(-1) }) : some[0];
  }
  const targets = (data, { ttft, tpot }) => say(data.sentences.targets, { ttft: timeWords(ttft), tpot: timeWords(tpot) });
  const nameOf = (data, { server, name }) => (server.here ? data.sentences.here_row : name);
  const inTime = (data, { server, sure }) => server.fits && (sure ?? 0) >= data.limits.never;
  const sureWords = (data, { sure }) => say(data.sentences[(sure ?? 0) >= data.limits.sure ? "sure" : "likely"], { share: share(sure ?? 0) });

  function title(data, load) {
    const { prompt, answer, ttft, tpot } = load;
    return say(data.sentences.title, {
      model: data.model.split("/").at(-1), weights: data.weights, engine: data.engine, prompt: number(prompt),
      answer: number(answer), ttft: timeWords(ttft), tpot: timeWords(tpot),
    });
  }
  // The decision for somebody else's interface, where it costs less than the pick at the load.
  function apiWords(data, { api, pick, load }) {
    const own = pick.usd_per_hour, words = data.sentences;
    if (!api || api.usd_per_hour === null || own === null || api.usd_per_hour >= own) return "";
    const from_load = api.cheaper_from === null ? "" : say(words.api_pays, { rps: two(api.cheaper_from) });
    return say(words.api, { usd: usdOf(api.usd_per_hour), rps: number(load.rps), own: usdOf(own), from_load });
  }
  function decision(data, { pick, load }) {
    const words = data.sentences, { server, servers } = pick, { price, device, count } = server;
    const sentence = server.here ? "here" : !price ? "unpriced" : price.bought_usd !== null ? "buy" : "rent";
    return say(words[sentence], {
      price: `"${device}=USD"`, name: pick.name === device ? `${server.article} ${device}` : pick.name,
      servers: servers > 1 ? say(words.servers, { count: servers, each: count > 1 ? count : "one" }) : "",
      usd: usdOf(pick.usd_per_hour), million: usdOf(pick.usd_million), many: "million", unit: "token", rate: two(server.one_user[1]),
      at: load.rps === null ? words.at_full : say(number(load.rps) === "1" ? words.at_one : words.at, { rps: number(load.rps) }), sure: sureWords(data, pick), targets: targets(data, load),
    });
  }
  function nothing(data, { nearest, options, load }) {
    const words = data.sentences, model = data.model, wanted = targets(data, load);
    if (!nearest) {
      const server = first(options.map((option) => option.server), ({ weights_bytes, available }) => weights_bytes / Math.max(available, 1));
      if (!server) return say(words.nothing_asked, { model });
      const [needed, room] = [server.weights_bytes, server.available].map((nbytes) => number(even((nbytes * server.count) / 1e9)));
      const name = server.count === 1 ? server.device : `${server.count} × ${server.device}`;
      return say(words.nothing_fits, { model, weights: server.weights, needed, name, room });
    }
    if (nearest.holds)
      return say(words.nothing_enough, { model, targets: wanted, rps: number(load.rps), holds: two(nearest.holds), name: nameOf(data, nearest) });
    const { server } = nearest, tpot = server.one_user[1] ? 1 / server.one_user[1] : 0, ttft = server.first_token;
    const name = server.count === 1 ? server.device : `${server.count} × ${server.device}`;
    if (tpot <= load.tpot && ttft <= load.ttft)
      return say(words.nothing_sure, { model, targets: wanted, name: nearest.name, share: share(nearest.sure ?? 0) });
    const options_to_ask = [["--ttft", ttft, load.ttft], ["--tpot", tpot, load.tpot]].filter(([, own, asked]) => own > asked);
    const asked = options_to_ask.map(([option, own]) => `${option} ${roundedUp(own)}`).join(" ");
    return say(words.nothing_holds, { model, targets: wanted, name, ttft: timeWords(ttft), tpot: timeWords(tpot), asked });
  }
  function roundedUp(seconds) {
    const more = seconds * 1.2e3;
    return more < 1000 ? `${two(more).replaceAll(",", "")}ms` : `${two(more / 1e3)}s`;
  }
  function lines(data, answer) {
    const words = data.sentences, { pick, rival, take_over, api, load } = answer, { model, longest } = data;
    if (isTooLong(data, load)) return [say(words.too_long, { model, longest: number(longest), tokens: number(load.prompt + load.answer) })];
    if (!pick) return [nothing(data, answer)];
    const { server } = pick, { price } = server, ofApi = apiWords(data, answer);
    const shown = [...(ofApi ? [ofApi] : []), decision(data, answer)];
    if (pick.safe)
      shown.push(say(words.one, { it: pick.servers === 1 ? words.it : words.each, rps: two(pick.safe), rate: two(server.one_user[1]) }));
    if (price && price.providers > 1)
      shown.push(say(words.price, {
        device: server.device, usd: usdWords(price.usd / server.count), count: price.providers, lowest: usdWords(price.lowest), provider: price.provider,
      }));
    if (rival) shown.push(say(words.rival, { name: rival.name, usd: usdOf(rival.usd_per_hour), sure: sureWords(data, rival) }));
    if (take_over) shown.push(say(words.take_over, { rps: two(take_over[0]), name: take_over[1].name, usd: usdOf(take_over[1].usd_per_hour) }));
    if (api && !ofApi) {
      const now = api.usd_per_hour !== null && load.rps ? say(words.api_now, { usd: usdOf(api.usd_per_hour) }) : "";
      shown.push(capital(now + (api.cheaper_from === null ? words.api_never : say(words.api_from, { rps: two(api.cheaper_from) }))));
    }
    return shown;
  }
  const isTooLong = (data, { prompt, answer }) => prompt + answer > data.longest;
  function shownOptions(data, answer) {
    if (data.everything) return answer.options;
    const best = bestOfEach(answer).filter((option) => option.server.here || inTime(data, option) || option.holds), { max_rows } = data.limits;
    return [...best.slice(0, max_rows), ...best.slice(max_rows).filter(({ server }) => server.here)];
  }
  function cells(data, option, { rps }) {
    const { server, servers, sure } = option, { price, fits, weights, weights_bytes, cache_bytes, device_memory } = server;
    const parts = fits ? `${gb(weights_bytes)} + ${gb(Math.max(cache_bytes, 0))}` : `no: ${gb(weights_bytes)}`;
    const [low, middle, high] = [0.1, 0.5, 0.9].map((part) => servers * quantile(server, part)), often = inTime(data, option);
    let hour = usdOf(option.usd_per_hour);
    if (price && price.low < price.high) hour += ` [${usdOf(price.low * servers)}–${usdOf(price.high * servers)}]`;
    const name = nameOf(data, option), held = sure === null ? "–" : share(sure);
    return [
      weights === data.weights ? name : `${name}, ${weights}`, `${parts} of ${gb(device_memory)}`,
      ...[servers * server.max_requests, server.max_context].map((count) => (fits ? count.toLocaleString("en-US") : "–")),
      fits ? two(server.one_user[1]) : "–", middle ? `${two(middle)} [${two(low)}–${two(high)}]` : "–", hour,
      often ? usdOf(option.usd_million) : "–", often ? usdOf(option.usd_million_full) : "–",
      option.holds ? say(data.sentences.holds, { holds: two(option.holds), rps: number(rps) }) : held,
    ];
  }
  function takenWords(rows) {
    const shares = rows.map(({ server }) => Math.round((100 * server.available) / server.device_memory));
    return `${[...new Set([Math.min(...shares), Math.max(...shares)])].join(" to ")} %`;
  }
  function notes(data, answer) {
    if (isTooLong(data, answer.load)) return [];
    const words = data.sentences, rows = shownOptions(data, answer), devices = new Set(rows.map(({ server }) => server.device));
    const names = (some) => joined(some, words, data.limits.max_names), reasons = { small: [], late: [], more: [] }, shown = [];
    for (const option of bestOfEach(answer).filter(({ server }) => !devices.has(server.device)))
      reasons[!option.server.fits ? "small" : inTime(data, option) || option.holds ? "more" : "late"].push(option.server.device);
    const tooFew = bestOfEach(answer).filter(({ holds }) => holds).map((option) =>
      say(words.too_few_name, { name: nameOf(data, option), rps: two(option.holds) }));
    if (tooFew.length) shown.push(say(words.too_few, { rps: number(answer.load.rps), names: names(tooFew) }));
    for (const [reason, some] of Object.entries(reasons)) if (some.length) shown.push(say(words[reason], { names: names(some) }));
    if (data.without.length) shown.push(say(words.without, { weights: data.weights, names: names(data.without) }));
    const engines = joined(rows.map(({ server }) => data.engines[server.engine]), words, 99);
    const when = answer.load.rps === null ? words.when_full : words.when;
    const bySeveral = new Set(rows.map(({ server }) => server.engine)).size > 1;
    const taken = bySeveral ? words.taken_by_several : words.taken;
    const share = rows.length ? say(taken, { engines, share: takenWords(rows) }) : "";
    shown.push(say(words.columns, { taken: share, when }), say(words.source, { engines: engines ?? data.engine }));
    const untested = rows.filter(({ server }) => !server.tested && !server.here).map(({ server }) => server.device);
    if (untested.length) shown.push(say(words.untested, { names: names(untested) }));
    return rows.some(({ server }) => server.here) ? [...shown, words.here_rate] : shown;
  }

  // Pictures.

  function axes(frame, [rates, across], [costs, up], ofUp, ofRight) {
    const { wide, high, left, right, below, margin, apart } = frame, { line, label, ticks } = chart, parts = [];
    for (const rate of ticks(frame.rates, rates, across, apart[0], margin))
      parts.push(line("grid", across(rate), margin, across(rate), high - below), label(across(rate), high - below + 16, digits(rate, 10), "middle"));
    for (const usd of ticks(frame.costs, costs, up, apart[1], margin))
      parts.push(line("grid", left, up(usd), wide - right, up(usd)), label(left - 6, up(usd) + 4, digits(usd, 10), "end"));
    return [...parts, label(4, margin - 4, ofUp, "start"), label(wide - right, high - 6, ofRight, "end")];
  }
  function overLoad(answer, frame) {
    const { load, pick, options, usdFor } = answer, { wide, high, left, right, below, margin } = frame, { line, label, element, scaleOf } = chart;
    const at = load.rps ?? pick.safe, loads = geometric(at / frame.around, at * frame.around, 2 * frame.on_a_side + 1);
    const devices = bestOfEach(answer).filter(({ server }) => server.price && server.price.bought_usd === null).slice(0, frame.curves);
    const curves = devices.map(({ server: { device } }) => {
      const servers = options.map(({ server }) => server).filter((server) => server.device === device);
      const points = loads.map((rps) => [rps, (Math.min(...servers.map((one) => usdFor(one, rps))) / (rps * load.answer * HOUR)) * MILLION]);
      return [device, points.filter(([, usd]) => usd > 0 && usd < Infinity)];
    }).filter(([, points]) => points.length);
    if (!curves.length) return [];
    const costs = curves.flatMap(([, points]) => points.map(([, usd]) => usd));
    const across = scaleOf(loads, left, wide - right), up = scaleOf(costs, high - below, margin);
    const parts = axes(frame, [loads, across], [costs, up], "USD a million tokens", "requests a second");
    if (load.rps !== null)
      parts.push(line("here", across(at), margin, across(at), high - below), label(across(at) + 5, margin + 10, "your load", "start"));
    const lasts = curves.map(([, points]) => points.at(-1)), ends = lasts.map(([, usd]) => up(usd));
    const order = ends.map((_, place) => place).sort((one, other) => ends[one] - ends[other]);
    order.slice(1).forEach((after, place) => { ends[after] = Math.max(ends[after], ends[order[place]] + frame.between); });
    curves.forEach(([device, points], place) => {
      const places = points.map(([rps, usd]) => `${across(rps).toFixed(1)},${up(usd).toFixed(1)}`).join(" "), [rps, usd] = lasts[place];
      parts.push(element("polyline", { class: `curve line${place}`, points: places }),
        line(`leader line${place}`, across(rps), up(usd), wide - right + 8, ends[place]),
        label(wide - right + 11, ends[place] + 4, device, "start", "name"));
    });
    return parts;
  }
  function againstSpeed(data, answer, frame) {
    const { wide, high, left, right, below, margin, dot } = frame, { element, scaleOf, nameOf } = chart;
    const speed = ({ server }) => server.one_user[1];
    const shown = answer.options.filter((option) => inTime(data, option) && speed(option) && option.usd_million);
    if (shown.length < 2) return [];
    const front = [];
    for (const option of [...shown].sort((one, other) => one.usd_million - other.usd_million || speed(other) - speed(one)))
      if (!front.length || speed(option) > speed(front.at(-1))) front.push(option);
    const speeds = shown.map(speed), costs = shown.map((option) => option.usd_million);
    const across = scaleOf(speeds, left, wide - right / 2), up = scaleOf(costs, high - below, margin);
    const ofUp = `USD a million tokens ${answer.load.rps === null ? "when full" : "at your load"}`;
    const parts = axes(frame, [speeds, across], [costs, up], ofUp, "tokens a second for one user");
    const kind = (option) => (option === answer.pick ? "pick" : front.includes(option) ? "front" : "other"), kinds = ["pick", "front", "other"];
    const points = [...shown].sort((one, other) => kinds.indexOf(kind(one)) - kinds.indexOf(kind(other))).map((option) => {
      const x = across(speed(option)), y = up(option.usd_million), half = option === answer.pick ? frame.pick_dot : dot;
      return { option, x, y, box: [x - half, y - half, x + half, y + half] };
    });
    const places = front.map((option) => `${across(speed(option)).toFixed(1)},${up(option.usd_million).toFixed(1)}`).join(" ");
    parts.push(element("polyline", { class: "front", points: places }));
    const taken = points.map(({ box }) => box);
    for (const point of points) {
      const { option, x, y } = point, circle = element("circle", { class: kind(option), cx: x, cy: y, r: kind(option) === "pick" ? frame.pick_dot : dot });
      circle.append(element("title", {}, option.name));
      parts.push(circle);
      if (kind(option) !== "other" || shown.length <= frame.max_names) parts.push(nameOf(option.name, point, `name ${kind(option)}`, taken, frame));
    }
    return parts.filter(Boolean);
  }
  function drawn(data, answer) {
    if (!answer.pick?.safe) return [];
    return [(frame) => overLoad(answer, frame), (frame) => againstSpeed(data, answer, frame)].flatMap((draw) =>
      Object.entries(data.frames).map(([name, own]) => {
        const frame = { ...data.chart, ...own };
        const svg = chart.element("svg", { class: `chart ${name}`, viewBox: `0 0 ${frame.wide} ${frame.high}`, role: "img", "aria-label": answer.pick.name });
        svg.append(...draw(frame));
        return svg;
      }).filter((svg) => svg.childNodes.length));
  }

  // The page.

  function read(form, data) {
    const value = (name) => form.elements[name]?.value.trim() ?? "";
    const above0 = (name, usual) => (Number(value(name)) > 0 ? Number(value(name)) : usual);
    const [of_prompt, of_answer] = ["in", "out"].map((name) => (value(name) === "" || !(Number(value(name)) >= 0) ? null : Number(value(name))));
    return {
      rps: above0("rps", null), prompt: Number(value("prompt")), answer: Number(value("answer")),
      ttft: above0("ttft", data.load.ttft * 1000) / 1000, tpot: above0("tpot", data.load.tpot * 1000) / 1000,
      api: of_prompt === null || !of_answer ? null : [of_prompt, of_answer],
    };
  }
  const serversAt = (data, load) => data.servers.map((known) => serverAt(data, known, load));
  function show(section, data, form) {
    const load = read(form, data), answer = decide(data, serversAt(data, load), load);
    const [head, ...rest] = lines(data, answer), part = (name) => section.querySelector(name), { element } = live;
    part("[data-title]").textContent = title(data, load);
    part("[data-decision]").textContent = head;
    const isAsAsked = ["rps", "prompt", "answer", "ttft", "tpot"].every((name) => load[name] === data.load[name]);
    if (isAsAsked) rest.push(...data.formats);
    part("[data-lines]").replaceChildren(...rest.map((line) => element("p", line)));
    part(".notes").replaceChildren(...notes(data, answer).map((note) => element("li", note)));
    part("tbody").replaceChildren(...shownOptions(data, answer).map((option) => live.row(cells(data, option, load), data.head, option === answer.pick)));
    part("[data-pictures]").replaceChildren(...drawn(data, answer));
  }
  return { decide, serversAt, lines, cells, notes, shownOptions, title, quantile, show };
})();
