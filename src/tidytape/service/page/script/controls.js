// --- controls that are filled again and again ---

// Options of a select, before them one for nothing where there is a word for it; what was chosen stays so.
function showOptions(select, choices, none) {
  const before = select.value;
  const empty = none === undefined ? [] : [html("option", { value: "" }, none)];
  select.replaceChildren(...empty, ...choices.map(({ value, label }) => html("option", { value }, label)));
  if (choices.some(({ value }) => value === before)) select.value = before;
}

// Boxes or radio buttons of one name, as pairs of value and text.
function showChips(host, name, type, choices, chosen, disabled = []) {
  const chip = ([value, text]) => {
    const state = { checked: chosen.includes(value), disabled: disabled.includes(value) };
    return html(
      "label",
      { class: "chip" },
      html("input", { type, name, value, ...state }),
      html("span", {}, text),
    );
  };
  host.replaceChildren(...choices.map(chip));
}

// Only what is new is written, for it is read aloud.
function say(element, text, write = (told) => element.replaceChildren(told)) {
  if (element.dataset.said === text) return;
  element.dataset.said = text;
  write(text);
}
