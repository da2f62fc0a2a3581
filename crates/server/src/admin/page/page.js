// Keeps the view current by long polls of its own address, and counts ages. Without it the page is as readable, and stays as it was.
(() => {
  'use strict';
  const live = document.getElementById('live');
  const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  let tag = null;
  let loaded = Date.now();

  const text = (seconds) =>
    seconds < 60 ? `${seconds} s` :
    seconds < 3600 ? `${Math.floor(seconds / 60)} min` :
    seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;

  setInterval(() => {
    const passed = Math.floor((Date.now() - loaded) / 1000);
    for (const age of document.querySelectorAll('.age')) {
      const now = text(Number(age.dataset.age) + passed);
      if (age.textContent !== now) age.textContent = now;
    }
  }, 1000);

  // Changes only what differs, so that focus, selection and scroll position stay.
  const morph = (old, next) => {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes])
      if (!next.hasAttribute(name) && !(old.nodeName === 'DETAILS' && name === 'open')) old.removeAttribute(name);
    for (const { name, value } of next.attributes)
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const nodes = [...next.childNodes];
    nodes.forEach((node, at) => {
      const before = old.childNodes[at];
      if (before) morph(before, node);
      else old.appendChild(node);
    });
    while (old.childNodes.length > nodes.length) old.lastChild.remove();
  };

  const show = (html) => {
    const next = new DOMParser().parseFromString(html, 'text/html');
    for (const id of ['main', 'alarm'])
      morph(document.getElementById(id), document.adoptNode(next.getElementById(id)));
    document.title = next.title;
    loaded = Date.now();
  };

  const set = (state) => {
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    live.textContent = state;
  };

  const follow = async () => {
    for (;;) {
      const began = Date.now();
      try {
        const headers = tag ? { 'If-None-Match': tag, Prefer: 'wait=25' } : {};
        const response = await fetch(location.href, { headers, cache: 'no-store' });
        if (response.status === 200 || response.status === 404) {
          tag = response.headers.get('ETag');
          show(await response.text());
          set('live');
        } else if (response.status === 304) {
          set('live');
        } else {
          set('offline');
          await wait(5000);
        }
      } catch {
        set('offline');
        tag = null;
        await wait(2000);
      }
      // At most one update per second, whatever the fleet does; none while the page is hidden.
      await wait(Math.max(0, 1000 - (Date.now() - began)));
      while (document.hidden) await wait(500);
    }
  };
  follow();
})();
