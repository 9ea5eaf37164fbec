# SPDX-License-Identifier: Apache-2.0
"""The flame graph and the top table match the functions' true CPU time, per service."""
import pytest

pytestmark = pytest.mark.samples_cpu

POINTS = 0.02  # share of the service's CPU time


def shares_of(run):
    return {name: ns / run.cpu_ns for name, ns in run.functions.items()}


def expect_shares(measured, truth):
    wrong = {name: (measured[name], share) for name, share in truth.items()
             if abs(measured[name] - share) > POINTS}
    assert not wrong, f"function: (measured, true) = {wrong}; all measured: {measured}"


@pytest.mark.parametrize("name", ["c", "cpp", "threads", "lockstep", "kernel"])
def test_flame_graph_shares_are_exact(fleet, runs, name):
    graph = fleet.api.merge(runs[name].service)
    graph.check()
    truth = shares_of(runs[name])
    expect_shares({f: graph.total_of(f) / graph.total for f in truth}, truth)


@pytest.mark.parametrize("name", ["c", "cpp", "threads", "lockstep", "kernel"])
def test_top_table_shares_are_exact(fleet, runs, name):
    rows, total = fleet.api.top(runs[name].service)
    truth = shares_of(runs[name])
    expect_shares({f: rows.get(f, (0, 0))[1] / total for f in truth}, truth)


@pytest.mark.parametrize("name", ["c", "cpp", "threads", "lockstep", "kernel", "python"])
def test_total_equals_process_cpu_time(fleet, runs, name):
    total = fleet.api.total(runs[name].service)
    assert total == pytest.approx(runs[name].cpu_ns, rel=0.03)


def test_separates_self_from_total(fleet, runs):
    rows, total = fleet.api.top(runs["c"].service)
    assert rows["burn_beta"][0] < 0.01 * total, "burn_beta only calls"
    assert rows["burn_beta_callee"][0] > 0.9 * rows["burn_beta"][1]
    assert rows["run_rounds"][1] > 0.95 * total
    assert rows["run_rounds"][0] < 0.02 * total


def test_recursion_counts_once(fleet, runs):
    graph = fleet.api.merge(runs["c"].service)
    deepest = max((graph.path(node).count("burn_gamma") for node in range(len(graph.names))))
    assert deepest == 12
    rows, total = fleet.api.top(runs["c"].service)
    assert rows["burn_gamma"][1] <= total


def test_kernel_time_belongs_to_calling_function(fleet, runs):
    graph = fleet.api.merge(runs["kernel"].service)
    for function in ("read_zeros", "read_random"):
        in_kernel = graph.kind_total_below(function, "kernel")
        assert in_kernel > 0.95 * graph.total_of(function), function
    assert graph.kind_total_below("stay_in_user_space", "kernel") < \
        0.1 * graph.total_of("stay_in_user_space")
    names = {graph.names[i] for i in range(len(graph.names)) if graph.kinds[i] == "kernel"}
    assert all(name.endswith("_[k]") for name in names), names


def test_numbered_threads_are_one_series(fleet, runs):
    service = runs["threads"].service
    values = fleet.api.get("labels/thread/values", query=service)["values"]
    assert "burner-N" in values and "burner-0" not in values
    burners = fleet.api.total(f'{{service="{service}",thread="burner-N"}}')
    assert burners == pytest.approx(fleet.api.total(service), rel=0.02)


def test_cpp_names_are_demangled(fleet, runs):
    names = {name for name in fleet.api.top(runs["cpp"].service)[0] if "kitchen" in name}
    assert "kitchen::Pot<double>::stir" in names
    assert any("(anonymous namespace)::hidden_chop" in name for name in names), names
    assert any("lambda" in name for name in names), names
    assert not any("_ZN" in name for name in names), names


def test_series_and_heat_map_sum_to_total(fleet, runs):
    service = runs["c"].service
    series = fleet.api.get("series", query=service)
    window = {"from_": series["first_step_ns"],
              "to": series["first_step_ns"] + series["step_ns"] * len(series["series"][0]["values"])}
    total = fleet.api.total(service, **window)
    assert sum(series["series"][0]["values"]) == pytest.approx(total, rel=0.001)
    heat = fleet.api.get("heatmap", query=service, **window)
    assert sum(heat["values"]) == total
    assert heat["slot_ns"] == 20_000_000
    # One thread: a slot of 20 ms holds at most 20 ms, and a sample at either end.
    busy = sorted(value for value in heat["values"] if value)
    assert busy[int(0.99 * len(busy))] <= 23e6
    assert busy[-1] == heat["value_max"]
