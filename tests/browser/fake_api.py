# SPDX-License-Identifier: Apache-2.0
"""The answers of a collector's API of version 1, computed from generated data, without HTTP around them."""

import bisect
import functools
import itertools
import math
import pathlib
import re
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import contract  # noqa: E402
import fake_profiles as profiles  # noqa: E402
from fake_data import MergedShape, NATIVE, PYTHON, SPIKE_AGE_S, SPIKE_S, Tree, without_line  # noqa: E402

KINDS = contract.CONTRACT["frameKinds"]

# Of a diff: a function of these places in the alphabet, modulo DIFF_EVERY, has so much of B's value in A.
DIFF_FACTORS, DIFF_EVERY = {0: 0, 1: 0.25, 2: 0.6, 3: 2.0, 4: 5.0}, 12


class BadRequest(Exception):
    def __init__(self, field, message):
        super().__init__(message)
        self.field = field


MATCHER = re.compile(r'\s*([A-Za-z_][\w.]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*')


def parse_selector(text):
    text = text.strip()
    if re.fullmatch(r"[\w][\w.:/@-]*", text):
        return [("service", "=", text)]
    if text in ("", "{}"):
        return []
    if not text.startswith("{"):
        raise BadRequest("query", "column 1: expected '{' or a word")
    at, matchers = 1, []
    while True:
        found = MATCHER.match(text, at)
        if not found:
            raise BadRequest("query", f"column {at + 1}: expected a matcher such as service=\"llm\"")
        matchers.append((found[1], found[2], re.sub(r"\\(.)", r"\1", found[3])))
        at = found.end()
        if text[at:at + 1] == "}" and at + 1 == len(text):
            return matchers
        if text[at:at + 1] != ",":
            raise BadRequest("query", f"column {at + 1}: expected ',' or '}}'")
        at += 1


def matches(matchers, labels):
    for name, op, value in matchers:
        have = labels.get(name, "")
        same = re.fullmatch(value, have) is not None if "~" in op else have == value
        if same == op.startswith("!"):
            return False
    return True


def runs_of(values):
    """As /api/v1/timeline: slots of 0 before a run of equal values, its slots, its value, one run after the other."""
    runs, zeros = [], 0
    for value, group in itertools.groupby(values):
        length = len(list(group))
        if value:
            runs += [zeros, length, value]
        zeros = 0 if value else zeros + length
    return runs


def parse_time(text, now_s, field):
    found = re.fullmatch(r"now(?:-(\d+)(ms|s|m|h|d))?", text)
    if found:
        unit = {"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, None: 0}[found[2]]
        return now_s - int(found[1] or 0) * unit
    if text.isdigit():
        number = int(text)
        return number / (1 if number < 1e11 else 1e3 if number < 1e14 else 1e6 if number < 1e17 else 1e9)
    raise BadRequest(field, f"'{text}' is not a time")


def group_of(labels, group_by):
    """The value of the label @group_by, or of several the ((name, value), ...) that there are."""
    names = group_by.split(",")
    return labels.get(group_by, "") if len(names) == 1 else tuple((name, labels[name]) for name in names if name in labels)


def group_names(group):
    return {"group": group} if isinstance(group, str) else {"group": ", ".join(value for _, value in group), "labels": dict(group)}


class Api:
    """Answers, without HTTP around them."""

    def __init__(self, data):
        self.data = data

    def common(self, params):
        now = time.time()
        matchers = parse_selector(params.get("query", ""))
        from_s = parse_time(params.get("from", "now-15m"), now, "from")
        to_s = parse_time(params.get("to", "now"), now, "to")
        if params.get("ranges"):
            ranges = self.ranges(params)
            from_s, to_s = ranges[0][0], ranges[-1][1]
        if from_s >= to_s:
            raise BadRequest("from", "from must be before to")
        return matchers, from_s, to_s

    def ranges(self, params):
        """The parts of the range that count: [(from_s, to_s)]."""
        now = time.time()
        if not params.get("ranges"):
            return [(parse_time(params.get("from", "now-15m"), now, "from"), parse_time(params.get("to", "now"), now, "to"))]
        if "from" in params or "to" in params:
            raise BadRequest("ranges", "give either ranges, or from and to")
        return sorted(tuple(parse_time(text, now, "ranges") for text in part.split("/")) for part in params["ranges"].split(","))

    def series(self, profile_type):
        """(labels, value of a range: a function of from_s and to_s, or a share of the usual load and one of the spike) of every series."""
        of_gpus = profile_type in profiles.OF_GPUS
        for name, (mean, nodes, processes, style, _) in self.data.services.items():
            if of_gpus and name not in profiles.TRAINER:
                continue
            threads = ["worker-0", "worker-1", "io-loop"] if style == "python" else ["main", "background"]
            for node in nodes:
                owner, share = {"service": name, "node": node}, 1 / len(nodes) / len(threads)
                for thread in threads:
                    for more, usual, spike in profiles.label_splits(profile_type, style):
                        yield {**owner, "process": processes[0], "thread": thread, **more}, (usual * share, spike * share)
                if self.data.excess:
                    yield {**owner, "process": processes[0], "other": "process"}, (share, share)
                if profile_type == profiles.THROTTLED and name == profiles.THROTTLED_SERVICE and node == nodes[0]:
                    yield {**owner, "container": f"{name}-0"}, functools.partial(profiles.throttled_ns, self.data.started_s, name)
                if profile_type == profiles.RESIDENT:
                    yield owner, lambda from_s, to_s, level=mean / len(nodes): profiles.resident_bytes(level, self.data.started_s, from_s)
                if profile_type == profiles.GPU_MEMORY:
                    yield owner, lambda from_s, to_s: profiles.GPU_BYTES
        for gpu in range(2) if profile_type in profiles.GPU_LEVELS and self.data.has_gpus else []:
            yield ({"service": "gpu", "node": "gpu-b7", "gpu": str(gpu), "gpu_uuid": f"GPU-{gpu}b1c7f02", "gpu_model": "NVIDIA H100 80GB HBM3"},
                   functools.partial(profiles.gpu_level, profile_type, gpu))
        if profile_type == profiles.OVERHEAD and not self.data.has_budget:
            since_s = self.data.started_s - SPIKE_AGE_S + 45
            yield {"service": profiles.AGENT, "node": "gpu-a1", "program": "gpu_probes"}, lambda from_s, to_s: int(max(0, to_s - max(from_s, since_s)) * 1e6)
        elif profile_type == profiles.OVERHEAD:
            for program, cores in profiles.PROGRAMS.items():
                yield {"service": profiles.AGENT, "node": "gpu-a1", "program": program}, lambda from_s, to_s, cores=cores: int(self.spoken_s(from_s, to_s) * cores * 1e9)
        for counter, node, per_s in profiles.DROPS if profile_type == profiles.EVENTS else []:
            yield {"service": profiles.AGENT, "node": node, "counter": counter}, lambda from_s, to_s, per_s=per_s: int(self.spoken_s(from_s, to_s) * per_s)
        if profile_type == profiles.SHEDDING_CHANGES:
            for at_s, node, setting in self.data.changes:
                yield {"service": profiles.AGENT, "node": node, **setting}, lambda from_s, to_s, at_s=at_s: int(from_s <= at_s < to_s)
        if profile_type == profiles.SHEDDING:
            derived = [(node, setting, at_s, math.inf) for at_s, node, setting in self.data.changes]
            for node, setting, since_s, until_s in derived if self.data.shedding is None else self.data.shedding:
                yield {"service": profiles.AGENT, "node": node, **setting}, functools.partial(profiles.shedding_ns, since_s, until_s)

    def selected(self, matchers, profile_type=profiles.CPU):
        return [] if self.data.empty else [(l, s) for l, s in self.series(profile_type) if matches(matchers, l)]

    def types(self, params):
        matchers, _, _ = self.common(params)
        found = [profile_type.split(":") for profile_type in profiles.TYPES if self.selected(matchers, profile_type)]
        return {"types": [{"type": ":".join(f), "name": f[0], "sample_type": f[1], "unit": f[2]} for f in found]}

    def spoken_s(self, from_s, to_s):
        """The seconds of a range in which agents sent data."""
        begin, end = self.data.silent or (0, 0)
        return to_s - from_s - max(0, min(to_s, end) - max(from_s, begin))

    def all_labels(self, params):
        matchers, _, _ = self.common(params)
        return [l for profile_type in profiles.TYPES for l, _ in self.selected(matchers, profile_type)]

    def type_fields(self, params):
        profile_type = params.get("type", profiles.CPU)
        return {"type": profile_type, "unit": profiles.unit_of(profile_type)}

    def labels(self, params):
        return {"names": sorted({n for l in self.all_labels(params) for n in l})}

    def label_values(self, name, params):
        return {"values": sorted({l[name] for l in self.all_labels(params) if name in l})}

    def status(self, params):
        now = time.time()
        newest = 0 if self.data.empty else int((now - 2) * 1e9)
        return {"version": "0.1.0", "agents": 0 if self.data.empty else 4, "series": len(self.selected([])),
                "oldest_ns": 0 if self.data.empty else int((self.data.started_s - self.data.age_s) * 1e9), "newest_ns": newest,
                "stored_bytes": 0 if self.data.empty else 48_211_304, "disk_free_bytes": 91 << 30, "batches_refused": 0,
                "damaged_partitions": 0, "now_ns": int(now * 1e9)}

    def agents(self, params):
        """One agent a node; that of db-1 has been silent for ten minutes, that of gpu-b7 is older than the others. The collector knows
        them since its start, a minute ago."""
        now_ns = int(time.time() * 1e9)
        nodes = sorted({node for _, nodes, *_ in self.data.services.values() for node in nodes})
        silent_ns = {"db-1": 600 * 10**9}
        agents = [] if self.data.empty else [
            {"agent": f"{at:032x}", "node": node, "tenant": "", "version": "0.0.9" if node == "gpu-b7" else "0.1.0",
             "state": "silent" if node in silent_ns else "sending", "first_ns": now_ns - 60 * 10**9,
             "last_ns": now_ns - silent_ns.get(node, 10**9), "batches": 1440 - at, "samples": 2_600_000 - at} for at, node in enumerate(nodes)]
        return {"agents": agents, "now_ns": now_ns}

    def list_services(self, params):
        """Services by value; a day before llm-gateway used a third less, and kubelet.service twice as much."""
        _, from_s, to_s = self.common(params)
        is_before = to_s < time.time() - 80_000
        factors = {"llm-gateway": 2 / 3, "kubelet.service": 2} if is_before else {}
        shift = 86_400 if is_before else 0
        rows = []
        for name, (_, nodes, *_) in self.data.services.items():
            total = int(sum(self.data.usage(name, from_s + shift, to_s + shift)) * factors.get(name, 1))
            if total:
                rows.append({"service": name, "total": total, "nodes": len(nodes), "pods": 3 if name == "llm-gateway" else 0,
                             "instances": 4 if name == "embedding-worker" else 0})
        rows.sort(key=lambda row: -row["total"])
        return {**self.type_fields(params), "total": sum(row["total"] for row in rows), "service_count": len(rows),
                "services": rows[:int(params.get("limit", 100))]}

    def shares(self, params, group_by):
        """{(group, service, what it waited for): [share of usual, share of spike, functions of a range]} of what is selected."""
        matchers, _, _ = self.common(params)
        shares = {}
        for labels, share in self.selected(matchers, params.get("type", profiles.CPU)):
            key = (group_of(labels, group_by), labels["service"], labels.get("wait", ""))
            have = shares.setdefault(key, [0, 0, []])
            if callable(share):
                have[2].append(share)
            else:
                have[0], have[1] = have[0] + share[0], have[1] + share[1]
        return shares

    def totals(self, shares, from_s, to_s):
        """{key of shares(): (usual, spike)} in the type's unit."""
        is_final = to_s < time.time() - 3 and not self.data.silent
        asks = functools.partial(profiles.cached_usage, self.data) if is_final else self.data.usage
        sums = {}
        for key, (usual, spike, functions) in shares.items():
            use = asks(key[1], from_s, to_s) if usual or spike else (0, 0)
            sums[key] = (int(use[0] * usual) + sum(f(from_s, to_s) for f in functions), int(use[1] * spike))
        return sums

    def totals_of(self, params, shares):
        """totals() of the range, or of several."""
        sums = {}
        for from_s, to_s in self.ranges(params):
            for key, values in self.totals(shares, from_s, to_s).items():
                sums[key] = tuple(map(sum, zip(sums.get(key, (0, 0)), values)))
        return sums

    def merged(self, params):
        """The merged tree's shape, self and total of its nodes."""
        group_by = params.get("group_by", "")
        self.common(params)
        parts, filled = [], []
        for (group, service, wait), values in sorted(self.totals_of(params, self.shares(params, group_by)).items()):
            below = (group or f"(no {group_by})") if group_by else None
            for number, value in enumerate(values):
                if value and self.data.trees_of(service, wait)[number]:
                    parts.append((below, service, wait, number))
                    filled.append(value)
        shape = self.shape(tuple(parts), params.get("lines", "interpreted"))
        return shape, *shape.fill(filled)

    @functools.lru_cache(32)
    def shape(self, parts, lines):
        return MergedShape([(below, self.data.trees_of(service, wait)[number]) for below, service, wait, number in parts],
                           *([without_line] if lines == "none" else []))

    def callers(self, params):
        """Both sides of the outermost calls of a function, node by node."""
        tree, own, total = self.merged(params)
        above, below = Tree(), Tree()
        values = {above: {}, below: {}}
        inside = {}

        def add(side, parent, frame, of_self, of_total):
            node = side.add(parent, frame) if parent is not None else 0
            sums = values[side].setdefault(node, [0, 0])
            sums[0] += of_self
            sums[1] += of_total
            return node

        for node in range(1, len(tree.parent)):
            if tree.parent[node] in inside:
                inside[node] = add(below, inside[tree.parent[node]], tree.frame[node], own[node], total[node])
            elif tree.frame[node][0] == params["function"]:
                above.frame[0] = below.frame[0] = tree.frame[node]
                inside[node] = add(below, None, None, own[node], total[node])
                at, caller = add(above, None, None, 0, total[node]), tree.parent[node]
                while caller:
                    at, caller = add(above, at, tree.frame[caller], 0, total[node]), tree.parent[caller]
                values[above][at][0] += total[node]
        filled = {side: [[values[side].get(node, [0, 0])[i] for node in range(len(side.parent))] for i in range(2)] for side in (above, below)}
        return {"callers": self.tree_answer(params, above, *filled[above]), "callees": self.tree_answer(params, below, *filled[below])}

    def merge(self, params):
        return self.tree_answer(params, *self.merged(params))

    def tree_answer(self, params, tree, own, total):
        _, from_s, to_s = self.common(params)
        nodes_max = int(params.get("max_nodes", 16384))
        keep = [n for n in range(len(total)) if n == 0 or total[n] > 0]
        node_count = len(keep)
        if len(keep) > nodes_max:
            largest = set(sorted(keep, key=total.__getitem__, reverse=True)[:nodes_max])
            keep = [n for n in keep if n in largest]
        place = {n: i for i, n in enumerate(keep)}
        cut = sum(total[n] for n in range(1, len(total)) if n not in place and tree.parent[n] in place)
        names, positions = [""], {"": 0}

        def position(text):
            if text not in positions:
                positions[text] = len(names)
                names.append(text)
            return positions[text]

        columns = {"parent": [place[tree.parent[n]] for n in keep], "name": [position(tree.frame[n][0]) for n in keep],
                   "module": [position(tree.frame[n][1]) for n in keep], "kind": [tree.frame[n][2] for n in keep],
                   "self": [own[n] for n in keep], "total": [total[n] for n in keep]}
        return {**self.type_fields(params), "from_ns": int(from_s * 1e9), "to_ns": int(to_s * 1e9),
                "total": total[0], "rows": node_count * 3, "stacks": sum(1 for w in own if w), "node_count": node_count,
                "series": len(self.selected(parse_selector(params.get("query", "")), params.get("type", profiles.CPU))),
                "cut": cut, "kinds": KINDS, "names": names, "nodes": columns}

    def diff(self, params):
        """B is the merge of the selection; in A a function has what FACTORS say, by the place of its name in the alphabet."""
        tree, own, total = self.merged(params)
        _, from_s, to_s = self.common(params)
        places = {name: place for place, name in enumerate(sorted({frame[0] for frame in tree.frame}))}
        place_of = [places[frame[0]] for frame in tree.frame]
        a_own = [int(value * DIFF_FACTORS.get(place_of[node] % DIFF_EVERY, 1)) for node, value in enumerate(own)]
        a_total = list(a_own)
        for node in range(len(a_total) - 1, 0, -1):
            a_total[tree.parent[node]] += a_total[node]
        length_s = to_s - from_s
        before_s = from_s - (86400 if params.get("against") == "1d" else length_s)
        divisors = [a_total[0], total[0]] if params.get("norm") == "share" else [length_s * 1e9] * 2

        def certainty(a, b):
            return 0 if a + b < 2e8 else 2 if abs(a - b) > 0.15 * (a + b) else 1

        def value(a, b):
            sure = certainty(a, b)
            return {"a": a, "b": b, "p": [1, 0.2, 1e-5][sure], "enough": sure > 0, "significant": sure == 2}

        functions, seen = {}, [frozenset()]
        for node in range(1, len(tree.parent)):
            name, module, kind = tree.frame[node]
            row = functions.setdefault((name, kind), [module, 0, 0, 0, 0])
            row[1:3] = row[1] + a_own[node], row[2] + own[node]
            if (name, kind) not in seen[tree.parent[node]]:
                row[3:] = row[3] + a_total[node], row[4] + total[node]
            seen.append(seen[tree.parent[node]] | {(name, kind)})
        rows = [{"name": name, "module": row[0], "kind": KINDS[kind], "self": value(*row[1:3]), "total": value(*row[3:])}
                for (name, kind), row in functions.items()]
        rows.sort(key=lambda row: -abs(row[params.get("sort", "self")]["a"] - row[params.get("sort", "self")]["b"]))
        answer = self.tree_answer(params, tree, own, total)
        kept = [n for n in range(len(total)) if n == 0 or total[n] > 0]  # max_nodes is above what there is
        nodes = {name: answer["nodes"][name] for name in ("parent", "name", "module", "kind")}
        nodes |= {"a_self": [a_own[n] for n in kept], "b_self": [own[n] for n in kept], "a_total": [a_total[n] for n in kept],
                  "b_total": [total[n] for n in kept], "p": [0.01] * len(kept), "certainty": [certainty(a_total[n], total[n]) for n in kept]}

        def side(query, at_s, whole, divisor):
            return {"query": query, "ranges_ns": [[int(at_s * 1e9), int((at_s + length_s) * 1e9)]], "total": whole, "divisor": divisor,
                    "instance_seconds": length_s, "instances": 3, "blocks": 32, "rows": 1000, "series": 7}

        query = params.get("query", "")
        return {**self.type_fields(params), "norm": params.get("norm", "rate"), "per": "auto", "false_discoveries": 0.05,
                "node_count": len(kept), "a": side(params.get("against_query") or query, before_s, a_total[0], divisors[0]),
                "b": side(query, from_s, total[0], divisors[1]), "function_count": len(rows), "functions": rows[:int(params.get("limit", 100))],
                "kinds": answer["kinds"], "names": answer["names"], "nodes": nodes}

    def lines(self, params):
        """The lines of a function; what is in serve.py has a text, of an upload whose version is not known to have run."""
        tree, own, total = self.merged({**params, "group_by": "", "lines": "all"})
        sums = {}
        for node in range(1, len(total)):
            if without_line(tree.frame[node])[0] == params["function"]:
                found = re.search(r"\((.*):(\d+)\)$", tree.frame[node][0])
                values = sums.setdefault((found[1], int(found[2])) if found else ("", 0), [0, 0, tree.frame[node][2]])
                values[0] += own[node]
                values[1] += total[node] if tree.outermost[node] else 0
        files = []
        for path in sorted({path for path, _ in sums}):
            has_text = path == "serve.py"
            rows = {line: {"line": line, "self": s, "total": t} for (of, line), (s, t, _) in sums.items() if of == path}
            for line in [near for at in list(rows) for near in range(max(at - 3, 1), at + 4)] if has_text else []:
                rows.setdefault(line, {"line": line, "self": 0, "total": 0})
            for line, row in rows.items():
                row.update({"text": f"\tcall_{line}('<img src=x onerror=alert(1)>')  # {'long ' * 20 if line == 2 else ''}"} if has_text else {})
            source = {"source": {"path": "serve.py", "from": "upload", "id": "ab" * 32, "service": "", "version": "1.4", "uploaded": 1893495600,
                                 "who": "token:ci", "address": "10.0.0.7", "sha256": "ab" * 32, "is_version": False, "others": 1,
                                 "names_function": True, "is_short": False}}
            files.append({"path": f"/srv/app/{path}" if path else "", "service": "llm-gateway", "version": "1.3",
                          "kind": KINDS[next(kind for (of, _), (_, _, kind) in sums.items() if of == path)],
                          "self": sum(row["self"] for row in rows.values()), "total": max(row["total"] for row in rows.values()),
                          "line_count": len(rows), "lines": [rows[line] for line in sorted(rows)],
                          **(source if has_text else {"missing": "not_found" if path else "no_path"})})
        return {**self.type_fields(params), "function": params["function"], "total": total[0], "file_count": len(files),
                "function_self": sum(file["self"] for file in files), "function_total": sum(file["total"] for file in files), "files": files}

    def top(self, params):
        if params.get("group_by"):
            sums = {}
            for (group, *_), values in self.totals_of(params, self.shares(params, params["group_by"])).items():
                sums[group] = sums.get(group, 0) + sum(values)
            groups = [{"group": group or f"(no {params['group_by']})", "total": total, "function_count": 0, "rows": []}
                      for group, total in sorted(sums.items(), key=lambda item: -item[1]) if total]
            return {**self.type_fields(params), "groups": groups, "group_count": len(groups)}
        tree, own, total = self.merged({**params, "group_by": ""})
        rows = {}
        for node in range(1, len(total)):
            row = rows.setdefault(tree.frame[node], [0, 0])
            row[0] += own[node]
            if tree.outermost[node]:
                row[1] += total[node]
        ran = self.ran(tree, own)
        ordered = sorted(((f, s, t) for f, (s, t) in rows.items() if t), key=lambda r: (-r[1], -r[2], r[0]))
        return {**self.type_fields(params), "kinds": KINDS, "total": total[0], "function_count": len(ordered),
                "rows": [{"name": f[0], "module": f[1], "kind": KINDS[f[2]], "self": s, "total": t, "ran": ran[f]}
                         for f, s, t in ordered[:int(params.get("limit", 100))]]}

    def ran(self, tree, own):
        """Of each function's total: the time by the kind of code that ran; the interpreter's own binary runs Python."""
        sums = [[0] * len(KINDS) for _ in own]
        for node in range(len(own) - 1, 0, -1):
            kind, module = tree.frame[node][2], tree.frame[node][1].rsplit("/", 1)[-1]
            sums[node][PYTHON if kind == NATIVE and module.startswith(("python", "libpython")) else kind] += own[node]
            if tree.parent[node]:
                sums[tree.parent[node]] = [a + b for a, b in zip(sums[tree.parent[node]], sums[node])]
        ran = {}
        for node in range(1, len(own)):
            if tree.outermost[node]:
                ran[tree.frame[node]] = [a + b for a, b in zip(ran.get(tree.frame[node], [0] * len(KINDS)), sums[node])]
        return ran

    def time_series(self, params):
        _, from_s, to_s = self.common(params)
        step = params.get("step")
        if step:
            found = re.fullmatch(r"(\d+)(ms|s|m|h)", step)
            if not found:
                raise BadRequest("step", f"'{step}' is not a duration")
            step_s = int(found[1]) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600}[found[2]]
        else:
            nice = [0.02, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300]
            step_s = nice[min(bisect.bisect_left(nice, (to_s - from_s) / 300), len(nice) - 1)]
        first_s = math.floor(from_s / step_s) * step_s
        count = max(1, math.ceil((to_s - first_s) / step_s))
        group_by = params.get("group_by", "")
        groups, shares = {}, self.shares(params, group_by)
        for at in range(count):
            left, right = first_s + at * step_s, first_s + (at + 1) * step_s  # whole steps, as the collector
            sums = self.totals(shares, left, right)
            for (group, _, _), values in sums.items():
                groups.setdefault(group, [0] * count)[at] += sum(values)
        series = [{**group_names(g), "total": sum(v), "values": v} for g, v in groups.items() if any(v)]
        series.sort(key=lambda s: -s["total"])
        return {**self.type_fields(params), "first_step_ns": int(first_s * 1e9), "step_ns": int(step_s * 1e9),
                "series": series}

    def heatmap(self, params):
        """Values per slot: each second is flat but for the spike, whose work is done in its first 200 ms."""
        _, from_s, to_s = self.common(params)
        slot_ms, peak_ms = (int(re.fullmatch(r"(\d+)ms", params.get(name) or "20ms")[1]) for name in ("slot", "peak"))
        first_ms = math.floor(from_s * 1000 / slot_ms + 1e-6) * slot_ms
        count = max(1, math.ceil(to_s * 1000 / slot_ms - 1e-6) - first_ms // slot_ms)
        seconds, shares = {}, self.shares(params, "")

        def second(at):
            if at not in seconds:
                sums = self.totals(shares, at, at + 1).values()
                seconds[at] = (sum(usual for usual, _ in sums) / 1000, sum(spike for _, spike in sums) / 200)
            return seconds[at]

        def value(begin_ms, end_ms):
            whole = 0
            while begin_ms < end_ms:
                at = begin_ms // 1000
                until = min(end_ms, at * 1000 + (200 if begin_ms % 1000 < 200 else 1000))
                usual, spike = second(at)
                whole += (usual + (spike if begin_ms % 1000 < 200 else 0)) * (until - begin_ms)
                begin_ms = until
            return int(whole)

        starts = [first_ms + at * slot_ms for at in range(count)]
        values = [value(start, start + slot_ms) for start in starts]
        answer = {**self.type_fields(params), "from_ns": first_ms * 10**6, "slot_ns": slot_ms * 10**6, "value_max": max(values), "values": values}
        if params.get("peak"):
            answer["peak_ns"] = peak_ms * 10**6
            answer["peaks"] = [max(value(start + at, start + at + peak_ms) for at in range(0, slot_ms, max(peak_ms, slot_ms // 5))) for start in starts]
        return answer

    def timeline(self, params):
        """Threads of the selected series: a loop is idle, others run, wait for a CPU, for a lock and for the GIL, each second alike."""
        matchers, from_s, to_s = self.common(params)
        slot_ms = int(re.fullmatch(r"(\d+)ms", params.get("slot") or "20ms")[1])
        first = math.floor(from_s * 1000 / slot_ms + 1e-6)
        count = max(1, math.ceil(to_s * 1000 / slot_ms - 1e-6) - first)
        begin_ms, end_ms = (time_s * 1000 for time_s in self.data.silent or (0, 0))
        is_known = [not begin_ms <= (first + at) * slot_ms < end_ms for at in range(count)]
        names = sorted({tuple((name, labels[name]) for name in ("node", "process", "service", "thread")) for labels, _ in self.selected(matchers)})
        threads = []
        for name in names:
            is_loop = name[-1][1] in ("io-loop", "background")
            parts = [(profiles.WALL, "", [1] * count)]
            if is_loop:
                parts.append((profiles.BLOCKED, "idle", [1] * count))
            for (profile_type, wait), share_at in {} if is_loop else profiles.TIMELINE:
                parts.append((profile_type, wait, [share_at(((first + at) * slot_ms % 1000) / 1000) for at in range(count)]))
            active = 0 if is_loop else int(count * slot_ms * 1e6)
            threads.append({"labels": dict(name), "active": active, "parts": [
                {"type": profile_type, **({"wait": wait} if wait else {}), "total": int(sum(shares) * slot_ms * 1e6),
                 "runs": runs_of([int(share * known * slot_ms * 1e6) for share, known in zip(shares, is_known)])}
                for profile_type, wait, shares in parts]})
        threads.sort(key=lambda thread: -thread["active"])
        limit = int(params.get("limit", 100))
        return {"from_ns": first * slot_ms * 10**6, "slot_ns": slot_ms * 10**6, "slot_count": count, "left_out": max(0, len(threads) - limit),
                "left_out_active": sum(thread["active"] for thread in threads[limit:]), "threads": threads[:limit]}

    def spikes(self, params):
        """Of a service with a spike: its CPU time, and a wait in the same incident."""
        matchers, from_s, to_s = self.common(params)
        begin = self.data.started_s - SPIKE_AGE_S
        names = [name for name, service in self.data.services.items() if service[4] and matches(matchers, {"service": name})]
        found = []
        for name in names if begin < to_s and begin + SPIKE_S > from_s else []:
            first = len(found)
            fields = {"service": name, "from_ns": int(begin * 1e9), "to_ns": int((begin + SPIKE_S) * 1e9), "goes_on": False,
                      "incident": first, "path": "/"}
            found += [{**fields, "type": profiles.CPU, "title": "CPU time: 3.00 cores instead of 1.10, for 6.0 s",
                       "sentence": "94 % of the extra CPU time is `<b>tokenize</b>` under `decode (llm.py)`."},
                      {**fields, "type": profiles.BLOCKED, "wait": "gil", "title": "Blocked time (GIL): 2.00 threads instead of 0.10",
                       "sentence": ""}]
        return {"spikes": found}

    def diagnose(self, params):
        """A fixed verdict; parameters are checked."""
        self.common(params)
        if "trainer" in params.get("query", ""):
            return self.gpu_diagnosis()
        return {
            "class": "gil", "title": "Threads wait for Python's global interpreter lock", "confidence": "high",
            "shares": [{"class": "gil", "title": "Threads wait for Python's global interpreter lock", "share": 0.712,
                        "threshold": 0.1, "reached": True},
                       {"class": "run_queue", "title": "Threads wait for a CPU", "share": 0.031, "threshold": 0.25,
                        "reached": False},
                       {"class": "disk", "title": "Threads wait for storage", "share": 0, "threshold": 0.2,
                        "reached": False}],
            "figures": {"range_ns": 60 * 10**9, "has_wall_clock": True},
            "evidence": {"type": profiles.BLOCKED, "wait": "gil", "finding": "60 % of this time is below `<b>tokenize</b> (llm.py:40)`.",
                         "stacks": [{"value": 10**9, "share": 0.6, "cut": True,
                                     "frames": ["futex_wait_[k]", "take_gil", "<b>tokenize</b> (llm.py:40)"]}]},
            "advice": ["Processes instead of threads."],
            "changed": [{"title": "CPU time: 1.90 cores instead of 0.20, for 2.0 s", "sentence": "94 % of the extra CPU time is `<i>load</i>`.",
                         "path": "/?at=1700000000000&for=2s&service=llm-gateway"},
                        {"title": "elsewhere", "sentence": "", "path": "javascript:alert(1)"}],
        }

    def gpu_diagnosis(self):
        title = "GPU starved: input is prepared too slowly"
        return {
            "class": "gpu_starved", "title": title, "confidence": "high",
            "shares": [{"class": "other_process", "title": "Threads wait for another process", "share": 0.32,
                        "threshold": 0.3, "reached": True}],
            "figures": {"range_ns": 60 * 10**9, "has_wall_clock": True},
            "gpu": {
                "class": "gpu_starved", "title": title, "confidence": "high", "intermittent": True,
                "late": {"communicator": "c0ffee", "rank": "3", "node": "<i>n2</i>"},
                "shares": [{"class": "gpu_starved", "title": title, "share": 0.55, "threshold": 0.2, "reached": True,
                            "judged": True},
                           {"class": "gpu_copy_bound", "title": "Copy bound: the GPU waits for copies from the host", "share": 0.04,
                            "threshold": 0.2, "reached": False, "judged": True},
                           {"class": "gpu_memory_bound", "title": "GPU bound: memory bandwidth", "share": 0,
                            "threshold": 0.6, "reached": False, "judged": False}],
                "figures": [{"name": "idle", "title": "GPU idle", "unit": "share", "value": 0.6},
                            {"name": "feeders", "title": "used by the service's other threads",
                             "unit": "cores", "value": 1.83},
                            {"name": "launch_rate", "title": "launches per launching thread", "unit": "per_second",
                             "value": 1234.4},
                            {"name": "launch_cost", "title": "CPU time per launch", "unit": "microseconds",
                             "value": 7.31}],
                "unknown": [{"name": "dram_active", "title": "DRAM active", "unit": "share",
                             "source": "GPU telemetry (GPM, Hopper and newer)"}],
                "advice": ["More workers."]},
            "evidence": {"type": profiles.BLOCKED,
                         "stacks": [{"value": 10**9, "share": 0.9, "cut": False,
                                     "frames": ["pipe_read_[k]", "next_batch (train.py:7)"]}]},
            "more_evidence": [{"what": "CPU time of the service's other threads", "type": profiles.CPU,
                               "stacks": [{"value": 10**9, "share": 0.8, "cut": False,
                                           "frames": ["decode (images.py:12)"]}]}],
            "advice": ["More workers."],
        }

    def collapsed(self, params):
        tree, own, _ = self.merged(params)
        path, lines = [""], []
        for node in range(1, len(tree.parent)):
            above = path[tree.parent[node]]
            path.append((above + ";" if above else "") + tree.frame[node][0])
            if own[node]:
                lines.append(f"{path[node]} {own[node]}")
        return "\n".join(lines) + "\n"
