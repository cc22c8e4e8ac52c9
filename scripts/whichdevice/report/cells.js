const follow = () => set_or_remove_dark_class();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
follow();
const options = JSON.parse(document.getElementById("cells-options").textContent);
const table = new DataTable("#cells-table", options);
const show = (view) => {
  table.columns(".view").visible(false, false);
  table.columns(`.${view}`).visible(true, false);
  table.columns.adjust();
};
for (const radio of document.querySelectorAll("input[name=view]")) {
  radio.addEventListener("change", () => show(radio.value));
}
document.querySelector("input[name=view]").checked = true;
