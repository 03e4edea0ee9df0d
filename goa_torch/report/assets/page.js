// The page: a section for each run.

const DATA = JSON.parse(document.getElementById('data').textContent);

function resultsTable(table) {
  const spread = table.rows.some((row) => row.sd !== '');
  const columns = [['accuracy, % [95%]', (row) => row.accuracy_text], spread && ['sd over seeds', (row) => row.sd], ['difference [95%]', (row) => row.difference], ['p (Holm)', (row) => row.p],
    ['unparsed / unfinished / failed', (row) => row.lost], ['calls', (row) => amount(row.calls)], ['tokens', (row) => amount(row.tokens)], ['depth', (row) => amount(row.depth)], ['seconds a question', (row) => row.seconds.toFixed(2)], ['paid tokens', (row) => amount(row.paid_tokens)]].filter(Boolean);
  return h('div', {class: 'scroll'}, h('table', {class: 'results'}, h('thead', {}, h('tr', {}, h('th', {}, 'method'), h('th', {}), columns.map(([name]) => h('th', {}, name)))),
    h('tbody', {}, table.rows.map((row, number) => h('tr', {}, h('td', {class: 'label'}, h('span', {class: 'swatch', style: `background:${colour(number)}`}), row.method), h('td', {class: 'bar'}, intervalBar(row, number)), columns.map(([, cell]) => h('td', {}, cell(row))))))));
}

function tableSection(table) {
  const costs = [['tokens', 'tokens a question'], ['calls', 'calls a question'], ['depth', 'sequential depth']];
  return h('section', {}, h('h3', {}, table.title), resultsTable(table),
    h('div', {class: 'charts'}, costs.map(([cost, label]) => costChart(table.rows, cost, label))),
    h('div', {class: 'legend soft small'}, 'Bars: 95% intervals. Filled points, joined by the grey line: nothing else is as good for less.'),
    h('ul', {class: 'notes'}, table.notes.map((note) => h('li', {}, note))));
}

// A table of texts beside that of accuracies, folded up.
function sideTable(table) {
  return h('details', {class: 'side'}, h('summary', {}, table.title), h('div', {class: 'scroll'}, h('table', {class: 'results'},
    h('thead', {}, h('tr', {}, table.header.map((name) => h('th', {}, name)))),
    h('tbody', {}, table.rows.map((row) => h('tr', {}, row.map((cell, number) => h('td', {class: number ? null : 'label'}, cell))))))),
    h('p', {class: 'soft small'}, table.note));
}

// The list of questions with its filters, and the trace of the chosen one.
function browser(run) {
  const list = h('div', {class: 'list', role: 'listbox', 'aria-label': 'questions'}), view = h('div', {class: 'trace'}, h('p', {class: 'soft'}, 'Choose a question.'));
  const task = choice(['every task', ...run.tasks]), show = choice(['all questions', 'methods disagree', 'all wrong', 'all right', 'without an answer']);
  const search = h('input', {type: 'search', placeholder: 'search text or id', size: 18, 'aria-label': 'search', on: {input: refresh}});
  const count = h('span', {class: 'soft small'});
  let chosen = null, method = run.methods[run.methods.length - 1], seed = run.seeds[0], shown = [];

  function choice(options) {
    return h('select', {on: {change: refresh}}, options.map((name) => h('option', {value: name}, name)));
  }

  function passes(entry) {
    const right = entry.outcomes.filter((outcome) => outcome.correct).length, all = entry.outcomes.length;
    const word = search.value.trim().toLowerCase();
    const kind = {'all questions': true, 'methods disagree': right > 0 && right < all, 'all wrong': right === 0, 'all right': right === all, 'without an answer': entry.outcomes.some((outcome) => outcome.status !== 'answered')}[show.value];
    return kind && (task.value === 'every task' || entry.task === task.value) && (!word || `${entry.id} ${entry.text || ''}`.toLowerCase().includes(word));
  }

  function refresh() {
    shown = run.questions.filter(passes);
    count.textContent = `${shown.length.toLocaleString('en')} of ${run.questions.length.toLocaleString('en')}`;
    list.replaceChildren(...shown.slice(0, 500).map((entry) => item(entry)), shown.length > 500 ? h('p', {class: 'soft small'}, 'The first 500; search for others.') : '');
    if (shown.length && !shown.includes(chosen)) open(shown[0]);
    if (!shown.length) view.replaceChildren(h('p', {class: 'soft'}, 'No question passes these filters.'));
  }

  function item(entry) {
    const marks = entry.outcomes.map((outcome) => h('span', {class: `mark ${outcome.correct ? 'yes' : outcome.status === 'answered' ? '' : 'none'}`, title: `${outcome.method}, seed ${outcome.seed}: ${outcome.correct ? 'right' : outcome.status}`}));
    return h('button', {type: 'button', role: 'option', 'data-id': entry.id, 'aria-current': entry === chosen, on: {click: () => open(entry)}}, h('span', {class: 'name'}, (entry.text || entry.id).slice(0, 160)), h('span', {class: 'marks'}, marks));
  }

  async function open(entry) {
    chosen = entry;
    list.querySelectorAll('button').forEach((button, i) => button.setAttribute('aria-current', shown[i] === entry));
    const lines = await unpack(entry.traces);
    if (chosen !== entry) return;
    const line = lines.find((other) => other.method === method && other.seed === seed) || lines[0];
    const methods = h('div', {class: 'bar-row', role: 'group', 'aria-label': 'methods'}, run.methods.filter((name) => lines.some((other) => other.method === name)).map((name) => {
      const outcome = entry.outcomes.find((other) => other.method === name && other.seed === line.seed);
      return h('button', {type: 'button', 'aria-pressed': name === line.method, on: {click: () => { method = name; open(entry); }}}, outcome ? (outcome.correct ? '✓ ' : '✗ ') : '', name);
    }));
    if (run.seeds.length > 1) methods.append(h('label', {class: 'small'}, 'seed ', h('select', {on: {change: (event) => { seed = Number(event.target.value); open(entry); }}}, run.seeds.map((number) => h('option', {value: number, selected: number === line.seed}, number)))));
    view.replaceChildren(h('div', {class: 'soft small'}, [...new Set([entry.task, entry.category, entry.id])].filter(Boolean).join(' · ')), h('div', {class: 'question'}, entry.text === null ? 'The text of this question is not at hand.' : entry.text), methods, showTrace(run, entry, line));
  }

  list.addEventListener('keydown', (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key], next = step && shown[shown.indexOf(chosen) + step];
    if (!next) return;
    event.preventDefault();
    open(next);
    list.querySelector('[aria-current="true"]').focus();
  });
  refresh();
  return h('section', {}, h('h3', {id: `questions-${run.number}`}, 'Questions'), h('div', {class: 'bar-row'}, run.tasks.length > 1 && task, show, search, count), h('div', {class: 'browser'}, list, view));
}

function runSection(run) {
  return h('article', {}, h('h2', {id: `run-${run.number}`}, run.name), h('div', {class: 'soft small'}, run.path),
    h('ul', {class: 'notes'}, run.notes.map((note) => h('li', {}, note))),
    run.tables.map(tableSection),
    run.side.length ? h('section', {}, h('h3', {}, 'Further tables'), run.side.map(sideTable)) : null,
    run.curves.length ? h('section', {}, h('h3', {}, 'Learning curves'), h('div', {class: 'charts'}, run.curves.map(curveChart))) : null,
    run.questions.length ? browser(run) : null,
    run.config && h('details', {style: 'margin-top:16px'}, h('summary', {}, 'configuration'), h('pre', {class: 'config'}, run.config)));
}

function themeButton() {
  const root = document.documentElement, order = ['auto', 'light', 'dark'];
  const button = h('button', {type: 'button', title: 'colours', on: {click: () => set(order[(order.indexOf(button.dataset.theme) + 1) % 3])}});
  function set(theme) {
    button.dataset.theme = theme;
    button.textContent = {auto: '◐ auto', light: '○ light', dark: '● dark'}[theme];
    if (theme === 'auto') delete root.dataset.theme; else root.dataset.theme = theme;
  }
  set('auto');
  return button;
}

DATA.runs.forEach((run, number) => { run.number = number; });
const links = DATA.runs.flatMap((run) => [h('a', {href: `#run-${run.number}`}, run.name), run.questions.length ? h('a', {href: `#questions-${run.number}`, class: 'small'}, 'questions') : '']);
document.body.append(h('header', {}, h('h1', {}, DATA.title), h('nav', {}, links), themeButton()), h('main', {}, DATA.runs.map(runSection)), h('footer', {}, `goa_torch ${DATA.version}`));
