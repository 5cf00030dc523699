"use strict";
// Asks our own server every two seconds how things are, and puts in what is new. What it
// puts in was drawn there, by the same functions as the page; scripts in it would not run.
const EVERY = 2000;
const main = document.querySelector("[data-live]");
const shown = new Map();
let stage = null;

function keep(old, fresh) {
  const open = new Set(
    [...old.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
  for (const one of fresh.querySelectorAll("summary")) {
    if (open.has(one.textContent)) one.parentElement.open = true;
  }
  const reach = "a, summary, [tabindex]";
  const at = [...old.querySelectorAll(reach)].indexOf(document.activeElement);
  const scrolled = [...old.querySelectorAll(".scroll, pre")].map(
    (one) => [one.scrollLeft, one.scrollTop]);
  old.replaceWith(fresh);
  [...fresh.querySelectorAll(".scroll, pre")].forEach((one, index) => {
    [one.scrollLeft, one.scrollTop] = scrolled[index] || [0, 0];
  });
  if (at >= 0) fresh.querySelectorAll(reach)[at]?.focus({ preventScroll: true });
}

function put(part, before) {
  if (shown.get(part.id) === part.html) return document.getElementById(part.id);
  shown.set(part.id, part.html);
  const parsed = new DOMParser().parseFromString(part.html, "text/html");
  const fresh = document.adoptNode(parsed.body.firstElementChild);
  const old = document.getElementById(part.id);
  if (old) keep(old, fresh);
  else main.insertBefore(fresh, before ? before.nextElementSibling : main.firstElementChild);
  return fresh;
}

function say(id, text) {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(main.dataset.live, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const told = await answer.json();
      let before = null;
      for (const part of told.parts) before = put(part, before);
      if (stage !== null && stage !== told.stage) say("news", told.stage);
      stage = told.stage;
      say("about", told.about);
      say("seen", `Last look: ${new Date().toLocaleTimeString()}`);
    } catch {
      say("news", "No answer: does trainwarden ui still run?");
      stage = "";
    }
  }
  setTimeout(look, EVERY);
}

if (main) look();
