// Keys and the theme; everything works without it. Owns no data: it moves the focus and follows links that stand on the page.
"use strict";
(() => {
  const typing = (element) => element.closest("input, select, textarea, dialog[open]") !== null;
  const rows = () => [...document.querySelectorAll("[data-row]")];
  let going = 0;

  function move(step) {
    const all = rows();
    if (all.length === 0) return;
    const at = all.findIndex((row) => row.classList.contains("here"));
    const to = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    all.forEach((row) => row.classList.toggle("here", row === to));
    const link = to.querySelector("a");
    (to.matches("article") || link === null ? to : link).focus({ preventScroll: true });
    to.scrollIntoView({ block: "nearest" });
  }

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function switchTheme() {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `headrace-theme=${theme}; path=/console; max-age=31536000; samesite=strict`;
  }

  const actions = {
    j: () => move(1),
    k: () => move(-1),
    d: switchTheme,
    n: () => document.getElementById("next")?.click(),
    "/": () => document.getElementById("search")?.focus(),
    "?": () => document.getElementById("keys")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (going && Date.now() - going < 1500) {
      going = 0;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link !== null) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === "g") { going = Date.now(); return; }
    const action = actions[event.key];
    if (action !== undefined) { event.preventDefault(); action(); }
  });

  document.getElementById("theme")?.addEventListener("click", switchTheme);
  document.getElementById("help")?.addEventListener("click", actions["?"]);
})();
