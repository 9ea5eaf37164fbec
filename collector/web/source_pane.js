// SPDX-License-Identifier: Apache-2.0
// The lines of one function, in the table's place: number, self and total, and the text where the collector has it.

import { byId, element } from "./element.js";
import { formatShare, formatTime } from "./format.js";
import { Panel } from "./panel.js";
import { fetchLines } from "./queries.js";

const FIELDS = ["query", "type", "from", "to", "idle", "sel", "code"]; // of a view; a change loads again
const MISSING = {
	no_path: "No lines are recorded. cairn-agent --lines, or an upload of debug files, adds those of native code.",
	not_found: "No source text. cairn upload --sources FOLDER, or the collector’s --source-folders, adds it.",
	not_text: "The source file is no text, or larger than 4 MiB.",
	gone: "The source file is gone. Upload it again.",
};

export class SourcePane {
	#state;

	constructor(state) {
		this.#state = state;
		this.panel = new Panel(byId("source-progress"), byId("source-error"));
		byId("source-close").addEventListener("click", () => state.change({ code: "" }));
	}

	keyOf(view) {
		return FIELDS.map((name) => view[name]);
	}

	/** Load and show. Throws ApiError. */
	async load(view, range) {
		const answer = await this.panel.load((signal) => fetchLines(view, range, signal));

		if (answer === undefined)
			return;
		this.panel.setMessage(...(answer.files.length ? [] : ["No sample has this function in this range."]));
		byId("source-facts").textContent = answer.files.length ?
			`self ${formatShare(answer.function_self, answer.total)}, total ${formatShare(answer.function_total, answer.total)}` : "";
		const more = answer.file_count - answer.files.length;
		byId("source-files").replaceChildren(...answer.files.map((file) => fileElement(file, answer)),
			...(more > 0 ? [element("p", "source-note", `${more} more files, services or versions have it.`)] : []));
	}

	/** Show @message instead of data. */
	fail(message) {
		byId("source-files").replaceChildren();
		byId("source-facts").textContent = "";
		this.panel.setMessage(message);
	}

	show(view) {
		byId("panes").dataset.source = String(view.code !== "");
		byId("source-title").textContent = byId("source-title").title = view.code;
	}
}

function fileElement(file, answer) {
	const owner = [file.service, file.version].filter((text) => text).join(" ");
	const head = element("h3", "source-path", file.path || "(no file)", ...(owner ? [element("span", "muted", ` ${owner}`)] : []));
	const body = element("tbody", "", ...rowsOf(file, answer));
	const titles = [["Line", "number"], ["Self", "number value"], ["Total", "number value"], ["Source", ""]].map(([text, name]) => {
		const title = element("th", name, text);
		title.scope = "col";
		return title;
	});

	return element("section", "source-file", head, ...notesOf(file).map((text) => element("p", "source-note", text)),
		       element("table", "source-table", element("thead", "", element("tr", "", ...titles)), body));
}

/** Where the text is from, and what is not certain about it. */
function notesOf({ source, missing, kind, lines, version }) {
	const notes = [];

	if (!source)
		notes.push(MISSING[missing] ?? MISSING.not_found);
	else
		notes.push(source.from === "upload" ?
			`${source.path}${source.version ? ` of version ${source.version}` : ""}, uploaded ${formatTime(1000 * source.uploaded)} by ${source.who}.` :
			`${source.path} in a folder of the collector, modified ${formatTime(1000 * source.modified)}.`);
	if (source && !source.names_function)
		notes.push("The text does not have the function’s name: it may be another file.");
	if (source?.is_short)
		notes.push("The text ends before some of these lines: it is another version.");
	else if (source && !source.is_version)
		notes.push(source.version && version ? `Version ${version} ran, this is another one: lines may have moved.` :
			   "Whether this version ran is not known: lines may have moved.");
	if (source?.others > 0)
		notes.push(`${source.others} more uploads or folders have such a file.`);
	const own = lines.filter((line) => line.self > 0);
	if (kind === "native" && own.length === 1 && own[0] === lines.find((line) => line.total > 0))
		notes.push("Without cairn-agent --lines, self time of native code is shown where its function begins.");
	return notes;
}

function rowsOf({ lines }, answer) {
	const rows = [];
	let last = lines[0]?.line ?? 0;

	for (const line of lines) {
		if (line.line > last + 1)
			rows.push(gapRow());
		last = line.line;
		rows.push(element("tr", line.total || line.self ? "" : "context", element("td", "number", line.line ? String(line.line) : "?"),
				  valueCell(line.self, answer.function_self, answer.total), valueCell(line.total, answer.function_total, answer.total),
				  element("td", "source-text", line.text ?? "")));
	}
	return rows;
}

/** A share of all samples; the bar is of the function's. */
function valueCell(value, ofFunction, whole) {
	const bar = element("span", "share-bar");

	if (!value)
		return element("td", "number value");
	bar.style.width = ofFunction > 0 ? `${Math.min(100, Math.max(0, (100 * value) / ofFunction))}%` : "0";
	return element("td", "number value", bar, element("span", "share", formatShare(value, whole)));
}

function gapRow() {
	const cell = element("td", "", "⋮");
	const row = element("tr", "gap", cell);

	cell.colSpan = 4;
	row.ariaHidden = "true";
	return row;
}

/** The function of a frame: what is called @name where @lines separates lines. */
export function functionOf(name, kind, lines) {
	if (lines !== "on")
		return name;
	return kind === "python" ? name.replace(/:\d+\)$/, ")") : name.replace(/ \([^()]*:\d+\)$/, "");
}
