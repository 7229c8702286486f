"use strict";
(() => {
  const root = document.documentElement;
  const map = document.getElementById("map");
  const slots = [...map.querySelectorAll(".slot")];
  const rows = [...document.querySelectorAll("tr.row")];
  root.classList.add("js");

  // -- what is held against a host: shown beside it, for one host at a time
  let shown = null;
  const tipOf = (slot) => slot.querySelector(".tip");

  function place() {
    const tip = tipOf(shown), at = shown.getBoundingClientRect(), gap = 8;
    const right = root.clientWidth - tip.offsetWidth - gap;
    const below = at.bottom + tip.offsetHeight + gap <= root.clientHeight;
    const top = below ? at.bottom - 1 : Math.max(gap, at.top - tip.offsetHeight + 1);
    tip.style.left = `${Math.max(gap, Math.min(at.left, right))}px`;
    tip.style.top = `${top}px`;
    tip.style.bottom = "auto";
  }

  function show(slot) {
    if (shown === slot) return;
    hide();
    shown = slot;
    tipOf(slot).classList.add("shown");
    place();
  }

  function hide() {
    if (shown) tipOf(shown).classList.remove("shown");
    shown = null;
  }

  const slotOf = (node) => node instanceof Element ? node.closest(".slot") : null;
  map.addEventListener("mouseover", (event) => { const slot = slotOf(event.target); if (slot) show(slot); });
  map.addEventListener("mouseleave", () => hide());
  map.addEventListener("focusin", (event) => { const slot = slotOf(event.target); if (slot) { rove(slot); show(slot); } });
  map.addEventListener("focusout", () => hide());
  document.addEventListener("click", (event) => { const slot = slotOf(event.target); if (slot) show(slot); else hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  window.addEventListener("scroll", () => { if (shown) place(); }, { passive: true });
  window.addEventListener("resize", () => hide());

  // -- the map is one stop of the Tab key; arrows move within it
  const racks = [...map.querySelectorAll(".units")].map((list) => [...list.querySelectorAll(".slot")]);
  const buttonOf = (slot) => slot.querySelector(".host");
  let stop = null;

  function rove(slot) {
    if (stop) buttonOf(stop).tabIndex = -1;
    stop = slot;
    buttonOf(slot).tabIndex = 0;
  }

  for (const slot of slots) buttonOf(slot).tabIndex = -1;
  if (slots.length) rove(slots[0]);

  const on = (slot) => !slot.classList.contains("off");
  const nearest = (list, top) => list.filter(on).sort((a, b) =>
    Math.abs(a.getBoundingClientRect().top - top) - Math.abs(b.getBoundingClientRect().top - top))[0];

  function next(slot, key) {
    const rack = racks.findIndex((list) => list.includes(slot));
    const list = racks[rack], here = list.indexOf(slot);
    if (key === "ArrowUp") return list.slice(0, here).filter(on).pop();
    if (key === "ArrowDown") return list.slice(here + 1).find(on);
    if (key === "Home") return slots.find(on);
    if (key === "End") return slots.filter(on).pop();
    // the host at about the same height in the next rack that has one
    const top = slot.getBoundingClientRect().top - list[0].parentElement.getBoundingClientRect().top;
    const step = key === "ArrowLeft" ? -1 : 1;
    for (let other = rack + step; racks[other]; other += step) {
      const found = nearest(racks[other], top + racks[other][0].parentElement.getBoundingClientRect().top);
      if (found) return found;
    }
    return undefined;
  }

  map.addEventListener("keydown", (event) => {
    const slot = slotOf(event.target);
    if (!slot || !["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const found = next(slot, event.key);
    if (found) buttonOf(found).focus();
  });

  // -- filter
  const field = (name) => document.getElementById(`f-${name}`);
  const fields = ["text", "state", "symptom", "profile"].map(field);
  const said = field("said");
  const rowOf = new Map(rows.map((row) => [document.getElementById(row.dataset.host).closest(".slot"), row]));
  const texts = new Map(slots.map((slot) => [slot, `${slot.textContent} ${rowOf.get(slot)?.textContent}`.toLowerCase()]));

  function apply() {
    const [text, state, symptom, profile] = fields.map((one) => one.value);
    const wanted = text.trim().toLowerCase();
    const fits = (slot) => (!wanted || texts.get(slot).includes(wanted)) && (!state || slot.dataset.standing === state)
      && (!symptom || slot.dataset.symptoms.includes(`|${symptom}|`)) && (!profile || slot.dataset.profile === profile);
    for (const slot of slots) {
      const off = !fits(slot);
      slot.classList.toggle("off", off);
      rowOf.get(slot)?.classList.toggle("off", off);
    }
    hide();
    const found = slots.filter(on);
    if (found.length && stop && !on(stop)) rove(found[0]);
    said.textContent = found.length === slots.length ? "" : `${found.length} of ${slots.length} hosts`;
  }

  for (const one of fields) one.addEventListener("input", apply);
  field("clear").addEventListener("click", () => { for (const one of fields) one.value = ""; apply(); });
  document.addEventListener("click", (event) => {
    const pick = event.target instanceof Element && event.target.closest(".pick");
    if (!pick) return;
    for (const one of fields) one.value = "";
    field("symptom").value = pick.dataset.symptom;
    apply();
    field("symptom").focus();
  });
  // a link to a host of the map
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest('a[href^="#h"]');
    const button = link && document.getElementById(link.getAttribute("href").slice(1));
    if (button) { event.preventDefault(); event.stopPropagation(); button.focus(); }
  }, true);
  document.getElementById("filters").hidden = false;
  apply();
})();
