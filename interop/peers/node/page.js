// Looks at the status page of `oxds serve` in headless Chromium, as an operator does: page.js URL FOLDER PICTURES REPLICA
//
// Prints a line for each thing that holds, and ends with code 1 at the first that does not. FOLDER is the served one, which it edits;
// PICTURES gets screenshots. REPLICA is the URL of one of two servers of a configuration in etcd.
'use strict';
const fs = require('fs');
const path = require('path');
const { chromium } = require('playwright-core');

const [url, folder, pictures, replica] = process.argv.slice(2);
const HOSTILE = `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1>`;
const FLEET = 230;
const SOON = 20000;

const check = (holds, what) => {
  if (!holds) throw new Error(`does not hold: ${what}`);
};
const done = (what) => console.log(`ok ${what}`);

// One poll of a client over REST, which the server lists as any client.
const poll = async (id, more = {}) => {
  const body = { node: { id, cluster: id.startsWith('edge') ? 'edge' : HOSTILE, user_agent_name: 'browser-test' }, ...more };
  const response = await fetch(`${url}/v3/discovery:clusters`, { method: 'POST', headers: { Prefer: 'wait=0' }, body: JSON.stringify(body) });
  return response.status === 200 ? response.json() : null;
};
const accept = async (id) => {
  const answer = await poll(id);
  check(answer.versionInfo && answer.nonce, `a response to ${id}`);
  await poll(id, { version_info: answer.versionInfo, response_nonce: answer.nonce });
};
const reject = async (id, message) => {
  const answer = await poll(id);
  await poll(id, { response_nonce: answer.nonce, error_detail: { code: 3, message } });
};

const watch = (page) => {
  const seen = { errors: [], foreign: [] };
  page.on('console', (message) => message.type() === 'error' && seen.errors.push(message.text()));
  page.on('pageerror', (error) => seen.errors.push(String(error)));
  page.on('request', (request) => {
    const target = request.url();
    if (!target.startsWith(url) && !target.startsWith(replica) && !target.startsWith('data:')) seen.foreign.push(target);
  });
  return seen;
};

const views = ['/', '/history', '/change?number=1', '/clients', '/clients?state=nacked', '/resources', '/resources?type=cds', '/graph', '/resource?type=cds&name=shop'];

const narrow = async (page) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  return wide <= 0;
};

const overview = async (page) => {
  await page.goto(url);
  check((await page.title()) === 'Overview · oxds', 'the title');
  for (const landmark of ['header', 'nav[aria-label=Views]', 'main', 'footer', 'h1'])
    check((await page.locator(landmark).count()) === 1, `one ${landmark}`);
  await page.locator('#live[data-state=live]').waitFor({ timeout: SOON });
  await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.activeElement.className === 'skip'), 'the first Tab skips to the content');
  done('the overview loads and becomes live');
};

const table = async (page) => {
  await page.goto(`${url}/clients`);
  const names = () => page.locator('tbody th').allInnerTexts();
  check((await names()).length === 100, 'a page has 100 clients');
  await page.getByRole('link', { name: 'Node' }).click();
  const up = await names();
  check(up.join() === [...up].sort().join(), 'sorted by node');
  check((await page.locator('th[aria-sort=ascending]').count()) === 1, 'the sorted column says so');
  await page.locator('th[aria-sort] a').click();
  await page.locator('th[aria-sort=descending]').waitFor({ timeout: SOON });
  check((await names())[0] !== up[0], 'sorted in descending order');
  await page.goto(`${url}/clients?sort=id`);
  await page.getByRole('link', { name: 'Next' }).click();
  check((await page.locator('.pager').innerText()).startsWith('101–200'), 'the next page');
  await page.getByRole('searchbox').fill('edge-17');
  await page.getByRole('button', { name: 'Filter' }).click();
  const found = await names();
  check(found.length === 11 && found.every((name) => name.startsWith('edge-17')), `filtered: ${found}`);
  await page.getByRole('link', { name: 'edge-170', exact: true }).click();
  check((await page.locator('h1').innerText()).includes('edge-170'), 'the page of a client');
  done('clients sort, filter and have pages');
};

const live = async (page) => {
  await page.goto(`${url}/resources?type=cds`);
  await page.locator('#live[data-state=live]').waitFor({ timeout: SOON });
  const file = path.join(folder, 'added.yaml');
  fs.writeFileSync(`${file}.new`, '"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: added-while-looking\ntype: STATIC\n');
  fs.renameSync(`${file}.new`, file);
  await page.getByRole('link', { name: 'added-while-looking' }).waitFor({ timeout: SOON });
  done('an edit shows without a reload');
  await page.goto(url);
  fs.writeFileSync(`${file}.new`, 'name: <b>broken</b>\nfield: [\n');
  fs.renameSync(`${file}.new`, path.join(folder, '<img src=x onerror=hacked=1>.yaml'));
  await page.locator('main .badge.bad', { hasText: 'error' }).waitFor({ timeout: SOON });
  check((await page.locator('main').innerText()).includes('<img src=x onerror=hacked=1>.yaml'), 'the file name as text');
  done('a broken file shows with its place');
};

const nack = async (page) => {
  await page.goto(url);
  const text = await page.locator('main').innerText();
  check(text.includes('clients NACKing') && text.includes('cluster shop is bad'), 'the reason of a NACK');
  await page.goto(`${url}/clients?state=nacked`);
  await page.locator('tbody th a').first().click();
  check((await page.locator('main').innerText()).includes('cluster shop is bad'), 'the reason at its client');
  done('a NACK shows with its reason');
};

const resource = async (page) => {
  await page.goto(`${url}/resources?type=cds&q=sho`);
  await page.getByRole('link', { name: 'shop', exact: true }).click();
  const text = await page.locator('main').innerText();
  check(text.includes('mesh.yaml:') && text.includes('name: shop'), 'content and place');
  check(!text.includes('HUSH'), 'no secret');
  await page.goto(`${url}/graph`);
  const picture = await page.locator('svg').innerText().catch(() => page.locator('svg').textContent());
  for (const part of ['shop', '127.0.0.1:1', 'Endpoints', '75%']) check(picture.includes(part), `the graph has ${part}`);
  await page.locator('svg a').first().click();
  check((await page.locator('h1').innerText()).includes('lds'), 'a node of the graph opens its resource');
  done('a resource opens, and the graph leads to it');
};

const request = async (page) => {
  await page.goto(`${url}/graph`);
  await page.locator('input[name=path]').fill('/shop.Cart/Get');
  await page.getByRole('button', { name: 'Show its path' }).click();
  const marked = await page.locator('svg g.on text:first-of-type').allTextContents();
  for (const part of ['shop', 'cart', '127.0.0.1:1']) check(marked.includes(part), `the path has ${part}: ${marked}`);
  check((await page.locator('svg path.on').count()) >= 4, 'the links of the path are marked');
  const text = await page.locator('main').innerText();
  check(text.includes('75% to cluster shop') && text.includes('Virtual host'), 'the steps of the decision');
  await page.screenshot({ path: path.join(pictures, 'request-light.png') });
  await page.goto(`${url}/graph?path=${encodeURIComponent(HOSTILE)}&authority=${encodeURIComponent(HOSTILE)}`);
  check((await page.locator('main img, main script').count()) === 0, 'a hostile path stays text');
  done('the path of a request is marked, with its steps');
};

const history = async (page) => {
  await page.goto(`${url}/history`);
  const first = await page.locator('tbody tr').first().innerText();
  check(first.includes('1 added') && first.includes('cds/added-while-looking') && first.includes('added.yaml'), `the last change: ${first}`);
  await page.locator('tbody th a').first().click();
  check((await page.locator('h1').innerText()).startsWith('Change #'), 'the page of a change');
  await page.getByRole('link', { name: 'added-while-looking' }).click();
  check((await page.locator('h1').innerText()).includes('added-while-looking'), 'a change leads to its resources');
  await page.goto(`${url}/history`);
  await page.locator('#live[data-state=live]').waitFor({ timeout: SOON });
  const file = path.join(folder, `${HOSTILE.replace(/\//g, '')}.yaml`);
  fs.writeFileSync(path.join(folder, '.next'), '"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: second-edit\ntype: STATIC\n');
  fs.renameSync(path.join(folder, '.next'), file);
  await page.locator('tbody tr', { hasText: 'cds/second-edit' }).waitFor({ timeout: SOON });
  await page.screenshot({ path: path.join(pictures, 'history-light.png') });
  done('the history follows an edit, and leads to its resources');
};

const replicas = async (page) => {
  await page.goto(replica);
  const row = (name) => page.locator('tbody tr', { hasText: name });
  await row('replica-1').filter({ hasText: 'main 2' }).waitFor({ timeout: SOON });
  const [own, other] = [await row('replica-0').innerText(), await row('replica-1').innerText()];
  check(own.includes('this server') && !other.includes('this server'), `one is this server: ${own}; ${other}`);
  check(own.includes('main 2') && own.includes('in sync'), `both serve publish 2: ${own}`);
  await page.screenshot({ path: path.join(pictures, 'replicas-light.png') });
  await page.goto(`${replica}/history`);
  const text = await page.locator('main').innerText();
  check(text.includes('main publish 2') && text.includes('<b>second</b> publish'), `the publish with its note: ${text}`);
  check((await page.locator('main b').count()) === 0, 'a hostile note stays text');
  done('replicas show with what they serve, and publishes with their notes');
};

const safe = async (page, seen) => {
  for (const view of [...views, `/clients?q=${encodeURIComponent(HOSTILE)}`, `/graph?listener=${encodeURIComponent(HOSTILE)}`,
    `/resource?type=cds&name=${encodeURIComponent(HOSTILE)}`, `/resources?type=${encodeURIComponent(HOSTILE)}`]) {
    await page.goto(url + view);
    check((await page.evaluate(() => window.hacked)) === undefined, `no injected script runs on ${view}`);
    check((await page.locator('main img, main script').count()) === 0, `no injected element on ${view}`);
  }
  const errors = seen.errors.filter((error) => !error.includes('404'));
  check(errors.length === 0, `no error in the console: ${errors}`);
  check(seen.foreign.length === 0, `no request to others: ${seen.foreign}`);
  done('hostile names stay text, without an error and a foreign request');
};

const phone = async (browser) => {
  const page = await browser.newPage({ viewport: { width: 390, height: 800 }, deviceScaleFactor: 2 });
  for (const view of views) {
    await page.goto(url + view);
    check(await narrow(page), `no horizontal scrolling at 390 px: ${view}`);
  }
  check(await page.locator('nav').evaluate((nav) => nav.scrollWidth <= nav.clientWidth), 'all views are in sight at 390 px');
  await page.goto(url);
  await page.screenshot({ path: path.join(pictures, 'phone.png') });
  done('a phone needs no horizontal scrolling');
};

const colours = async (browser) => {
  const shots = { overview: '/', clients: '/clients', resources: '/resources?type=cds', resource: '/resource?type=cds&name=shop', graph: '/graph', history: '/history' };
  const grounds = [];
  for (const colorScheme of ['light', 'dark']) {
    const page = await browser.newPage({ viewport: { width: 1180, height: 760 }, colorScheme });
    for (const [name, view] of Object.entries(shots)) {
      await page.goto(url + view);
      await page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}.png`) });
    }
    grounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await page.close();
  }
  check(grounds[0] !== grounds[1], `dark and light differ: ${grounds}`);
  done('dark and light');
};

const plain = async (browser) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${url}/clients?q=edge-17`);
  check((await page.locator('tbody tr').count()) === 11, 'a table without a script');
  await context.close();
  done('readable without a script');
};

(async () => {
  fs.mkdirSync(pictures, { recursive: true });
  for (let at = 0; at < FLEET; at++) await accept(`edge-${at}`);
  await reject(HOSTILE, `cluster shop is bad: ${HOSTILE}`);
  await reject('edge-bad', 'cluster shop is bad: no');
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || 'chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  });
  try {
    const page = await browser.newPage({ viewport: { width: 1180, height: 760 } });
    page.setDefaultTimeout(SOON);
    const seen = watch(page);
    await overview(page);
    await table(page);
    await colours(browser);
    await nack(page);
    await resource(page);
    await request(page);
    await live(page);
    await history(page);
    await replicas(page);
    await phone(browser);
    await plain(browser);
    await safe(page, seen);
    console.log('done');
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.log(`failed ${error.message}`);
  process.exit(1);
});
