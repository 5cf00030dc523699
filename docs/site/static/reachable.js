/* What scrolls is reached by the keyboard, and headings of the side bar have a level. */
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper")) box.tabIndex = 0;
  for (const one of document.querySelectorAll(".caption[role=heading]"))
    one.setAttribute("aria-level", "2");
  const drawers = { ".sidebar-drawer": "Pages", ".toc-drawer": "On this page" };
  for (const [drawer, name] of Object.entries(drawers))
    document.querySelector(drawer)?.setAttribute("aria-label", name);
});
