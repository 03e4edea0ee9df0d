// Who heard whom in one round, drawn on a circle.

function nodeNames(agents) {
  const seen = {};
  return agents.map((agent) => {
    seen[agent] = (seen[agent] || 0) + 1;
    return agents.filter((other) => other === agent).length > 1 ? `${agent} #${seen[agent]}` : agent;
  });
}

function drawGraph(names, edges, {right = [], relevance = null, kept = null, readout = []} = {}) {
  const n = names.length, size = 340, centre = size / 2, many = n > 16;
  const radius = n > 1 ? centre - (many ? 26 : 54) : 0;
  const place = names.map((_, i) => {
    const angle = -Math.PI / 2 + 2 * Math.PI * i / Math.max(n, 1);
    return [centre + radius * Math.cos(angle), centre + radius * Math.sin(angle)];
  });
  const dot = many ? Math.max(3, 60 / n) : 21;
  const svg = s('svg', {viewBox: `0 0 ${size} ${size}`, width: '100%', style: 'max-width:390px', role: 'img', 'aria-label': `${n} agents, ${edges.length} edges`},
    s('defs', {}, s('marker', {id: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: 'userSpaceOnUse', orient: 'auto'}, s('path', {d: 'M0 0L8 4L0 8z', fill: 'var(--accent)'}))));
  const plain = edges.every(([, , weight]) => Math.abs(weight - 1) < 1e-6);
  const labels = [];
  for (const [from, to, weight] of edges) {
    if (!place[from] || !place[to]) continue;
    const title = s('title', {}, `${names[from]} is heard by ${names[to]}, weight ${weight.toFixed(3)}`);
    const look = {fill: 'none', stroke: 'var(--accent)', 'stroke-width': 0.7 + 1.5 * Math.min(weight, 3), opacity: many ? 0.35 : 0.75};
    if (from === to) {
      const [x, y] = place[from], away = radius ? dot / radius : 0;
      svg.append(s('circle', {...look, cx: x + (x - centre) * away, cy: y + (y - centre) * away - (radius ? 0 : dot), r: dot * 0.55}, title));
      continue;
    }
    const [x0, y0] = place[from], [x1, y1] = place[to];
    const dx = x1 - x0, dy = y1 - y0, length = Math.hypot(dx, dy) || 1;
    const cx = (x0 + x1) / 2 + 0.14 * dy, cy = (y0 + y1) / 2 - 0.14 * dx;
    const end = Math.hypot(x1 - cx, y1 - cy) || 1, start = Math.hypot(x0 - cx, y0 - cy) || 1;
    const a = [x0 + (cx - x0) * dot / start, y0 + (cy - y0) * dot / start];
    const b = [x1 + (cx - x1) * (dot + 2) / end, y1 + (cy - y1) * (dot + 2) / end];
    svg.append(s('path', {...look, d: `M${a[0]} ${a[1]}Q${cx} ${cy} ${b[0]} ${b[1]}`, 'marker-end': many ? null : 'url(#tip)'}, title));
    if (!plain && !many && length) {
      const t = 0.4, u = 1 - t;
      labels.push(s('text', {x: u * u * a[0] + 2 * u * t * cx + t * t * b[0], y: u * u * a[1] + 2 * u * t * cy + t * t * b[1] + 3, 'text-anchor': 'middle', style: 'paint-order:stroke;stroke:var(--card);stroke-width:4px'}, weight.toFixed(2)));
    }
  }
  names.forEach((name, i) => {
    const [x, y] = place[i], said = right[i];
    const stroke = said === true ? 'var(--right)' : said === false ? 'var(--wrong)' : 'var(--soft)';
    const dropped = kept && !kept[i];
    svg.append(s('g', {opacity: dropped ? 0.45 : 1},
      s('title', {}, `${name}${relevance ? `, relevance ${relevance[i].toFixed(3)}` : ''}${dropped ? ', dropped' : ''}`),
      readout.includes(i) && s('circle', {cx: x, cy: y, r: dot + 4, fill: 'none', stroke: 'var(--gold)', 'stroke-width': 2}),
      s('circle', {cx: x, cy: y, r: dot, fill: 'var(--tint)', stroke, 'stroke-width': 2, 'stroke-dasharray': dropped ? '4 3' : null}),
      !many && s('text', {x, y: relevance ? y - 1 : y + 4, 'text-anchor': 'middle', style: 'font-size:10px'}, name.length > 9 && n > 1 ? `${name.slice(0, 8)}…` : name),
      !many && relevance && s('text', {class: 'soft', x, y: y + 11, 'text-anchor': 'middle', style: 'font-size:9.5px'}, relevance[i].toFixed(2))));
  });
  svg.append(...labels);
  return svg;
}
