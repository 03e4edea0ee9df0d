// Elements by hand. What models wrote is only ever a text node.

const COLOURS = ['#4477aa', '#ee6677', '#228833', '#c9a400', '#66a6d0', '#aa3377', '#888888', '#e07b39', '#5b4fc4', '#2a9d8f'];
const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'on') for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else if (name.startsWith('aria-')) node.setAttribute(name, String(value));
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function colour(number) {
  return COLOURS[number % COLOURS.length];
}

function amount(value) {
  if (value === null || value === undefined) return '';
  if (value >= 1e6) return `${(value / 1e6).toLocaleString('en', {maximumFractionDigits: 1})}M`;
  if (value >= 100) return Math.round(value).toLocaleString('en');
  if (value !== 0 && Math.abs(value) < 0.01) return String(Number(value.toPrecision(2)));
  return value.toLocaleString('en', {maximumFractionDigits: Math.abs(value) < 1 ? 3 : 1});
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}
