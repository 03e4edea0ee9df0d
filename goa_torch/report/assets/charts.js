// Charts: accuracy against cost, and curves.

function ticks(low, high, wanted = 6) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of [1, 2, 5]) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  }
  return found;
}

// What ticks a step apart are called: as many decimals as tell them apart, thousands and millions for short.
function tickLabels(found) {
  const step = found.length > 1 ? found[1] - found[0] : Math.abs(found[0]) || 1, most = Math.max(...found.map(Math.abs), 0);
  const [size, unit] = most >= 1e6 ? [1e6, 'M'] : most >= 1e4 ? [1e3, 'k'] : [1, ''];
  const digits = Math.min(20, Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)));
  if (digits > 5) return found.map((at) => at === 0 ? '0' : at.toExponential(1));
  return found.map((at) => at === 0 ? '0' : (at / size).toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits}) + unit);
}

// An empty chart with its axes; gives the places of values.
function frame({width = 380, height = 230, x, y, xLabel, yLabel, logX = false, whole = false}) {
  const levels = ticks(y[0], y[1]), levelNames = tickLabels(levels);
  const left = Math.max(46, 26 + 7 * Math.max(0, ...levelNames.map((name) => name.length))), right = 12, top = 10, bottom = 38;
  const map = logX ? Math.log : (value) => value;
  const [x0, x1] = [map(x[0]), map(x[1])];
  const px = (value) => left + (map(value) - x0) / (x1 - x0 || 1) * (width - left - right);
  const py = (value) => height - bottom - (value - y[0]) / (y[1] - y[0] || 1) * (height - top - bottom);
  const svg = s('svg', {viewBox: `0 0 ${width} ${height}`, width: '100%', role: 'img', 'aria-label': `${yLabel} against ${xLabel}`});
  levels.forEach((at, number) => {
    svg.append(s('line', {class: 'grid', x1: left, x2: width - right, y1: py(at), y2: py(at)}),
      s('text', {class: 'soft', x: left - 6, y: py(at) + 4, 'text-anchor': 'end'}, levelNames[number]));
  });
  const across = (logX ? logTicks(x[0], x[1]) : ticks(x[0], x[1])).filter((at) => !whole || Number.isInteger(at));
  const acrossNames = logX ? across.map(amount) : tickLabels(across);
  across.forEach((at, number) => {
    svg.append(s('line', {class: 'grid', x1: px(at), x2: px(at), y1: height - bottom, y2: height - bottom + 4}),
      s('text', {class: 'soft', x: px(at), y: height - bottom + 16, 'text-anchor': 'middle'}, acrossNames[number]));
  });
  svg.append(s('text', {x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle'}, xLabel),
    s('text', {x: 11, y: (top + height - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 11 ${(top + height - bottom) / 2})`}, yLabel));
  return {svg, px, py};
}

function padded(values, share = 0.08) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}

function costChart(rows, cost, label) {
  const values = rows.map((row) => row[cost]);
  const logX = cost !== 'depth' && Math.min(...values) > 0 && Math.max(...values) > 5 * Math.min(...values);
  const x = logX ? [Math.min(...values) / 1.25, Math.max(...values) * 1.25] : padded(values, 0.12);
  const bounds = rows.flatMap((row) => [100 * row.low, 100 * row.high]);
  const y = [Math.max(0, Math.min(...bounds) - 3), Math.min(100, Math.max(...bounds) + 3)];
  const {svg, px, py} = frame({x, y, xLabel: label, yLabel: 'accuracy, %', logX, whole: cost === 'depth'});
  const front = rows.filter((row) => row[`front_${cost}`]).sort((a, b) => a[cost] - b[cost]);
  svg.append(s('polyline', {points: front.map((row) => `${px(row[cost])},${py(100 * row.accuracy)}`).join(' '), fill: 'none', stroke: 'var(--soft)', 'stroke-width': 1.5, opacity: 0.55}));
  rows.forEach((row, number) => {
    const alike = rows.map((other, i) => i).filter((i) => Math.abs(px(values[i]) - px(values[number])) < 4);
    const at = px(row[cost]) + 9 * (alike.indexOf(number) - (alike.length - 1) / 2);
    const stroke = colour(number);
    svg.append(s('g', {},
      s('title', {}, `${row.method}: ${row.accuracy_text} %, ${amount(row[cost])} ${label}`),
      s('line', {x1: at, x2: at, y1: py(100 * row.low), y2: py(100 * row.high), stroke, 'stroke-width': 1.4}),
      s('circle', {cx: at, cy: py(100 * row.accuracy), r: 4.5, fill: row[`front_${cost}`] ? stroke : 'var(--card)', stroke, 'stroke-width': 2})));
  });
  return h('figure', {}, svg);
}

function curveChart(panel) {
  const points = panel.series.flatMap((series) => series.points);
  const x = padded(points.map((point) => point[0]), 0.02), y = padded(points.map((point) => point[1]));
  const {svg, px, py} = frame({x, y, xLabel: panel.step, yLabel: ''});
  panel.series.forEach((series, number) => {
    const stroke = colour(number);
    svg.append(s('polyline', {points: series.points.map(([a, b]) => `${px(a)},${py(b)}`).join(' '), fill: 'none', stroke, 'stroke-width': 1.6}));
    if (series.points.length <= 60) for (const [a, b] of series.points) svg.append(s('circle', {cx: px(a), cy: py(b), r: 2.2, fill: stroke}));
  });
  return h('figure', {}, h('figcaption', {}, panel.quantity), svg, legend(panel.series.map((series) => series.name)));
}

function legend(names) {
  return h('div', {class: 'legend'}, names.map((name, number) => h('span', {}, h('span', {class: 'swatch', style: `background:${colour(number)}`}), name)));
}

// A row's accuracy and its interval on a line from 0 to 100%.
function intervalBar(row, number) {
  const width = 130, at = (share) => 4 + share * (width - 8);
  return s('svg', {width, height: 18, role: 'img', 'aria-label': row.accuracy_text},
    s('line', {class: 'grid', x1: 4, x2: width - 4, y1: 9, y2: 9}),
    s('line', {x1: at(row.low), x2: at(row.high), y1: 9, y2: 9, stroke: colour(number), 'stroke-width': 4, opacity: 0.45}),
    s('circle', {cx: at(row.accuracy), cy: 9, r: 4, fill: colour(number)}));
}
