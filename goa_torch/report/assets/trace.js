// How one answer came about.

function showTrace(run, entry, line) {
  const names = nodeNames(line.agents);
  const outcome = entry.outcomes.find((other) => other.method === line.method && other.seed === line.seed);
  const talks = line.stages.filter((stage) => stage.stage === 'pass');
  const usage = line.usage;
  const box = h('div', {},
    h('p', {}, h('strong', {class: outcome.correct ? 'right' : 'wrong'}, outcome.correct ? '✓ right' : `✗ ${outcome.status === 'answered' ? 'wrong' : outcome.status}`),
      ` · answer ${outcome.answer === null ? 'none' : outcome.answer} · gold ${entry.gold} · `,
      h('span', {class: 'soft'}, `${usage.calls} calls, ${amount(usage.prompt_tokens + usage.completion_tokens)} tokens, depth ${line.depth}; paid ${amount(line.paid.prompt_tokens + line.paid.completion_tokens)} tokens`)),
    line.error && h('p', {class: 'wrong'}, line.error));
  const score = line.stages.find((stage) => stage.stage === 'score');
  box.append(h('div', {class: 'two'}, talks.length ? roundsView(names, line, talks, score) : drawGraph(names, [], {right: lastRight(line, names.length), readout: readers(line)}),
    h('div', {}, score && matrix(names, score), costs(line))));
  for (const stage of line.stages) box.append(showStage(stage, names));
  return box;
}

function readers(line) {
  const stage = line.stages.findLast((other) => other.stage === 'readout');
  return stage && stage.edges ? stage.edges.map((edge) => edge[0]) : [];
}

function lastRight(line, n, until = Infinity) {
  const right = Array(n).fill(null);
  for (const stage of line.stages) {
    if ((stage.stage === 'answer' || stage.stage === 'pass') && stage.round <= until) {
      for (const said of stage.replies) if (said.text !== null && 'right' in said) right[said.node] = said.right;
    }
  }
  return right;
}

// The graph of each round, with buttons to step through them.
function roundsView(names, line, talks, score) {
  const holder = h('div', {}), bar = h('div', {class: 'bar-row', role: 'group', 'aria-label': 'rounds'});
  const buttons = talks.map((stage, number) => h('button', {type: 'button', on: {click: () => show(number)}}, talks.length > 12 ? stage.round : `round ${stage.round}`));
  function show(number) {
    const last = number === talks.length - 1;
    holder.replaceChildren(drawGraph(names, talks[number].edges || [], {right: lastRight(line, names.length, talks[number].round), relevance: score && score.relevance, kept: score && score.kept, readout: last ? readers(line) : []}));
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', i === number));
  }
  bar.append(...buttons);
  show(0);
  return h('div', {}, bar, holder, h('p', {class: 'soft small'}, 'Rim: ', h('span', {class: 'right'}, 'right'), ' or ', h('span', {class: 'wrong'}, 'wrong'), ' after the round; gold ring: read out (last round). Arrows run from who is heard to who hears.'));
}

function matrix(names, score) {
  const most = Math.max(...score.matrix.flat().filter((value) => value !== null), 1e-9);
  const cell = (value, diagonal) => h('td', {style: value === null ? null : `background:color-mix(in srgb, var(--accent) ${Math.round(45 * value / most)}%, transparent)`}, value === null ? (diagonal ? '–' : '?') : value.toFixed(2));
  return h('div', {}, h('h4', {}, 'Scores: each judge (row) shares 1 among the others'), h('div', {class: 'scroll'}, h('table', {class: 'matrix'},
    h('tr', {}, h('th', {}), names.map((name) => h('th', {}, name))),
    score.matrix.map((row, i) => h('tr', {}, h('th', {class: 'row'}, names[i]), row.map((value, j) => cell(value, i === j)))),
    h('tr', {}, h('th', {class: 'row'}, 'relevance S'), score.relevance.map((value, i) => h('td', {}, value.toFixed(2), score.kept[i] ? '' : ' dropped'))))),
    score.unparsed ? h('p', {class: 'soft small'}, `${score.unparsed} judges could not be read and are left out.`) : null);
}

function costs(line) {
  const header = ['calls for', 'calls', 'shared', 'prompt', 'new tokens', 'seconds'];
  return h('div', {}, h('h4', {}, 'Cost'), h('table', {class: 'matrix'}, h('tr', {}, header.map((name) => h('th', {}, name))),
    line.calls.map((call) => h('tr', {}, h('th', {class: 'row'}, call.purpose, call.failed ? h('span', {class: 'wrong'}, ` ${call.failed} failed`) : null), [call.calls, call.shared, call.prompt, call.new].map((value) => h('td', {}, amount(value) || '0')), h('td', {}, call.seconds.toFixed(2))))));
}

const TITLES = {select: 'Select: who takes part', answer: 'Answer: each on its own', score: 'Score', readout: 'Read out'};

function showStage(stage, names) {
  const title = stage.stage === 'pass' ? `Pass: round ${stage.round}` : TITLES[stage.stage] || stage.stage;
  const box = h('section', {class: 'stage'}, h('h4', {}, title));
  if (stage.stage === 'select') {
    box.append(h('p', {}, `By ${stage.by}: ${stage.nodes.map((node) => names[node.node]).join(', ')}.`, stage.fallback ? ' The choice could not be read; agents were drawn by lot.' : ''));
    if (stage.shortlist) box.append(h('p', {class: 'soft small'}, `A search shortlisted ${stage.shortlist.join(', ')}.`));
    if (stage.probabilities) box.append(h('p', {class: 'soft small'}, Object.entries(stage.probabilities).sort((a, b) => b[1] - a[1]).map(([name, p]) => `${name} ${p.toFixed(2)}`).join(', ')));
    if (stage.text) box.append(speech(null, {text: stage.text}));
  } else if (stage.stage === 'score') {
    box.append(h('p', {class: 'soft'}, `Kept: ${names.filter((_, i) => stage.kept[i]).join(', ') || 'nobody'}.`));
  } else if (stage.stage === 'readout') {
    box.append(h('p', {class: 'soft'}, `By ${stage.by}, from ${stage.edges && stage.edges.length ? stage.edges.map(([from, weight]) => `${names[from]} (${weight.toFixed(2)})`).join(', ') : 'nobody'}.`), speech(null, stage));
  } else if (stage.replies) {
    const hears = (node) => (stage.edges || []).filter(([, to]) => to === node).sort((a, b) => b[2] - a[2]).map(([from, , weight]) => `${names[from]} ${weight.toFixed(2)}`).join(', ');
    for (const said of stage.replies) box.append(speech(names[said.node], said, hears(said.node)));
    for (const [from, to] of stage.cut || []) box.append(h('p', {class: 'wrong small'}, `Cut, did not fit the context: ${names[from]} to ${names[to]}`));
  } else {
    const facts = Object.entries(stage).filter(([name, value]) => name !== 'stage' && name !== 'text' && value !== null && !(name === 'unparsed' && !value) && !(Array.isArray(value) && !value.length));
    box.append(h('p', {class: 'soft small', style: 'overflow-wrap:anywhere'}, facts.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(' · ')));
    if (typeof stage.text === 'string') box.append(speech(null, stage));
  }
  return box;
}

function speech(name, said, hears = '') {
  const mark = said.right === true ? ' yes' : said.right === false ? ' no' : '';
  const notes = [hears && `hears ${hears}`, said.answer !== undefined && said.answer !== null && `answer: ${said.answer}`, said.finish_reason === 'length' && 'cut off', said.finish_reason === 'error' && 'failed', said.log_prob !== undefined && `log p ${said.log_prob.toFixed(1)}`].filter(Boolean);
  return h('div', {class: `said${mark}`}, h('div', {class: 'small'}, name && h('strong', {}, name), name && notes.length ? ' · ' : '', h('span', {class: 'soft'}, notes.join(' · '))),
    h('pre', {}, said.text === null || said.text === undefined ? said.error || 'said nothing' : said.text || '(says nothing)'),
    said.reasoning && h('details', {}, h('summary', {}, 'reasoning'), h('pre', {}, said.reasoning)));
}
