// The question browser: sorts, filters and opens questions. Texts reach the page through textContent only.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const modelNames = new Map(data.models.map((m) => [m.id, m.name]));
  const order = { zero_shot: 0, retrieval: 2 };

  const root = document.documentElement;
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  function make(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    if (className) node.className = className;
    return node;
  }
  const fixed = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));

  // ---- state -------------------------------------------------------------------------------------------------
  const state = { model: data.models.length ? data.models[0].id : null, sort: "t0", descending: false, open: new Set() };

  function armsOf(model) {
    const found = new Set();
    for (const q of data.questions) for (const f of q.forecasts) if (f.model === model) found.add(f.arm);
    return [...found].sort((a, b) => (order[a] ?? 1) - (order[b] ?? 1) || a.localeCompare(b));
  }
  function meanOf(question, model, arm) {
    const ps = question.forecasts.filter((f) => f.model === model && f.arm === arm && f.p !== undefined).map((f) => f.p);
    return ps.length ? ps.reduce((a, b) => a + b, 0) / ps.length : null;
  }
  let arms = [];
  function prepare() {
    arms = state.model ? armsOf(state.model) : [];
    for (const q of data.questions) {
      q.y = q.outcome === "Yes" ? 1 : 0;
      q.means = arms.map((arm) => meanOf(q, state.model, arm));
      const last = q.means.length ? q.means[q.means.length - 1] : null;
      q.brier = last === null ? null : (last - q.y) ** 2;
      const right = (p) => p !== null && (p > 0.5) === (q.y === 1);
      q.wrong = last !== null && !right(last);
      q.recovered = q.means.length > 1 && last !== null && q.means[0] !== null && right(last) && !right(q.means[0]);
      q.broken = q.means.length > 1 && last !== null && q.means[0] !== null && !right(last) && right(q.means[0]);
    }
  }

  // ---- table -------------------------------------------------------------------------------------------------
  function columns() {
    return [
      { id: "text", name: "Question", key: (q) => q.text.toLowerCase(), cell: null },
      { id: "topic", name: "Topic", key: (q) => q.topic, cell: (q) => [q.topic, "topic"] },
      { id: "t0", name: "t0", key: (q) => q.t0_s, cell: (q) => [q.t0.slice(0, 10)] },
      { id: "outcome", name: "Outcome", key: (q) => q.y, cell: (q) => [q.outcome] },
      { id: "price", name: "Market", key: (q) => q.price, cell: (q) => [fixed(q.price, 2)] },
      ...arms.map((arm, k) => ({
        id: "arm-" + arm,
        name: data.arms[arm],
        key: (q) => q.means[k],
        cell: (q) => [fixed(q.means[k], 2), q.means[k] === null ? "" : (q.means[k] > 0.5) === (q.y === 1) ? "gain" : "loss"],
      })),
      { id: "brier", name: "Brier", key: (q) => q.brier, cell: (q) => [fixed(q.brier, 3)] },
    ];
  }
  function compare(key) {
    return (a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null); // what is missing stays last
      const found = typeof x === "string" ? x.localeCompare(y) : x - y;
      return state.descending ? -found : found;
    };
  }
  function wanted() {
    const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const topic = byId("topic").value, outcome = byId("outcome").value, which = byId("which").value;
    return data.questions.filter((q) => {
      const text = (q.text + " " + q.id).toLowerCase();
      return words.every((w) => text.includes(w)) && (!topic || q.topic === topic) &&
        (!outcome || q.outcome === outcome) && (!which || q[which]);
    });
  }
  function draw() {
    const cols = columns();
    const head = make("tr");
    for (const col of cols) {
      const th = make("th");
      th.scope = "col";
      if (col.id === state.sort) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      const button = make("button", col.name);
      button.type = "button";
      button.addEventListener("click", () => {
        state.descending = state.sort === col.id ? !state.descending : false;
        state.sort = col.id;
        draw();
      });
      th.append(button);
      head.append(th);
    }
    byId("browser").tHead.replaceChildren(head);
    const rows = wanted();
    rows.sort(compare((cols.find((c) => c.id === state.sort) || cols[2]).key));
    const body = document.createDocumentFragment();
    for (const q of rows) {
      const tr = make("tr");
      tr.id = "q-" + q.id;
      const first = make("td", null, "text");
      const button = make("button", q.text);
      button.type = "button";
      const isOpen = state.open.has(q.id);
      button.setAttribute("aria-expanded", String(isOpen));
      button.addEventListener("click", () => {
        if (!state.open.delete(q.id)) state.open.add(q.id);
        draw();
        document.querySelector("#q-" + CSS.escape(q.id) + " button").focus();
      });
      first.append(button);
      tr.append(first);
      for (const col of cols.slice(1)) {
        const [text, kind] = col.cell(q);
        tr.append(make("td", text, kind));
      }
      body.append(tr);
      if (isOpen) {
        tr.classList.add("open");
        const detail = make("tr", null, "detail");
        const td = make("td");
        td.colSpan = cols.length;
        td.append(panel(q));
        detail.append(td);
        body.append(detail);
      }
    }
    byId("browser").tBodies[0].replaceChildren(body);
    byId("shown").textContent = `${rows.length} of ${data.questions.length} questions. Means over runs; blue is right, orange wrong.`;
  }

  // ---- one question ------------------------------------------------------------------------------------------
  function panel(q) {
    const box = make("div", null, "panel");
    const facts = [q.topic, `resolved ${q.outcome}`, `t0 ${q.t0}`, `closed ${q.close}`, q.duration, q.event ? `event ${q.event}` : "", q.age_h === null ? "" : `price ${q.age_h} h old`, ...q.flags];
    box.append(make("p", facts.filter(Boolean).join(" · "), "facts"));
    box.append(part("Price of Yes and forecasts at t0", q.prices.length > 1 ? priceLine(q) : make("p", "No price history in this report.", "facts")));
    const list = make("div");
    const near = (f) => f.model === state.model || f.model === "none";
    for (const f of q.forecasts.filter(near)) list.append(forecast(f));
    const others = q.forecasts.filter((f) => !near(f));
    if (others.length) {
      const more = make("details");
      more.append(make("summary", `${others.length} forecasts of other models`));
      for (const f of others) more.append(forecast(f));
      list.append(more);
    }
    box.append(part("Forecasts", list));
    if (q.documents.length) {
      const ul = make("ul", null, "documents");
      for (const [id, at, n] of q.documents) {
        const li = make("li");
        li.append(make("code", id), make("span", at.slice(0, 10)), make("span", `in ${n} forecasts`));
        ul.append(li);
      }
      const more = q.documents_total > q.documents.length ? `, ${q.documents.length} shown` : "";
      box.append(part(`Documents (${q.documents_total}${more})`, ul));
    }
    box.append(part("Resolution criteria", make("p", q.criteria || "None given.", "criteria")));
    const id = make("p", null, "facts");
    id.append(make("code", q.id));
    box.append(id);
    return box;
  }
  function part(title, content) {
    const div = make("div");
    div.append(make("h4", title), content);
    return div;
  }
  function forecast(f) {
    const name = f.model === "none" ? data.arms[f.arm] : `${modelNames.get(f.model) || f.model}, ${data.arms[f.arm].toLowerCase()}, run ${f.run}`;
    const bits = [f.p === undefined ? f.status : f.p.toFixed(2), f.evidence ? `evidence ${f.evidence}` : "", f.prior !== undefined ? `prior ${f.prior.toFixed(2)}` : "", f.stop ? `stopped: ${f.stop}` : "", f.documents ? `${f.documents} documents` : ""];
    const details = make("details");
    details.append(make("summary", `${name}: ${bits.filter(Boolean).join(" · ")}`));
    details.append(make("p", f.why || "No rationale in this report.", "why"));
    return details;
  }
  const NS = "http://www.w3.org/2000/svg";
  function shape(tag, attributes, text) {
    const node = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function priceLine(q) {
    const w = 640, h = 170, left = 30, bottom = 22, top = 8;
    const from = Math.min(q.prices[0][0], q.t0_s), to = Math.max(q.prices[q.prices.length - 1][0], q.t0_s);
    const x = (t) => left + ((t - from) / Math.max(to - from, 1)) * (w - left - 10);
    const y = (p) => top + (1 - p) * (h - top - bottom);
    const svg = shape("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "Price history with forecasts at t0" });
    for (const p of [0, 0.5, 1]) {
      svg.append(shape("line", { x1: left, x2: w - 10, y1: y(p), y2: y(p), stroke: "var(--line)" }));
      svg.append(shape("text", { x: left - 6, y: y(p) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--muted)" }, String(p)));
    }
    let path = "";
    q.prices.forEach(([t, p], k) => { path += k ? `H${x(t).toFixed(1)}V${y(p).toFixed(1)}` : `M${x(t).toFixed(1)},${y(p).toFixed(1)}`; });
    if (q.prices[q.prices.length - 1][0] < q.t0_s) path += `H${x(q.t0_s).toFixed(1)}`; // the last price stands until t0
    svg.append(shape("path", { d: path, fill: "none", stroke: "var(--warn)", "stroke-width": 1.8 }));
    svg.append(shape("line", { x1: x(q.t0_s), x2: x(q.t0_s), y1: top, y2: h - bottom, stroke: "var(--muted)", "stroke-dasharray": "3 3" }));
    for (const f of q.forecasts) {
      if (f.p === undefined || f.model !== state.model) continue;
      const fill = f.arm === "zero_shot" ? "var(--muted)" : "var(--accent)";
      const mark = shape("rect", { x: x(q.t0_s) - 4, y: y(f.p) - 4, width: 8, height: 8, fill, opacity: 0.75 });
      mark.append(shape("title", {}, `${modelNames.get(f.model) || f.model}, ${data.arms[f.arm]}: ${f.p}`));
      svg.append(mark);
    }
    const day = (t) => new Date(t * 1000).toISOString().slice(0, 10);
    svg.append(shape("text", { x: left, y: h - 5, "font-size": 11, fill: "var(--muted)" }, day(from)));
    svg.append(shape("text", { x: w - 10, y: h - 5, "text-anchor": "end", "font-size": 11, fill: "var(--muted)" }, day(to)));
    svg.append(shape("text", { x: x(q.t0_s) - 6, y: top + 10, "text-anchor": "end", "font-size": 11, fill: "var(--muted)" }, "t0"));
    return svg;
  }

  addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details.fold")) fold.open = true; });

  // ---- start -------------------------------------------------------------------------------------------------
  for (const m of data.models) {
    const option = make("option", m.name);
    option.value = m.id;
    byId("model").append(option);
  }
  byId("model").addEventListener("change", () => { state.model = byId("model").value; prepare(); draw(); });
  for (const id of ["find", "topic", "outcome", "which"]) byId(id).addEventListener("input", draw);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  prepare();
  const linked = decodeURIComponent(location.hash.slice(1));
  if (linked.startsWith("q-")) state.open.add(linked.slice(2));
  draw();
  if (linked.startsWith("q-")) byId(linked)?.scrollIntoView();
})();
