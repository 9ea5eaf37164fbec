# SPDX-License-Identifier: Apache-2.0
"""What `make install` copies, `make uninstall` removes."""
from installation import PAGES, PROGRAMS, make, run


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_uninstall_leaves_nothing(tmp_path):
    make("install", tmp_path)
    found = files_below(tmp_path)
    assert {f"usr/local/bin/{program}" for program in PROGRAMS} <= found and len(found) > 10
    make("uninstall", tmp_path)
    assert files_below(tmp_path) == set()


def test_changed_settings_stay(tmp_path):
    settings = tmp_path / "etc/cairn/agent.yaml"
    make("install", tmp_path, "PREFIX=/usr")
    settings.write_text("frequency: 49\n")
    make("install", tmp_path, "PREFIX=/usr")
    assert settings.read_text() == "frequency: 49\n"
    make("uninstall", tmp_path, "PREFIX=/usr")
    assert files_below(tmp_path) == {"etc/cairn/agent.yaml"}


def test_installed_pages_are_found_by_name(installed):
    for program, page in PAGES.items():
        section = page.rsplit(".", 1)[1]
        found = run("man", "-M", installed / "usr/share/man", "-w", section, program)
        assert found.strip().endswith(f"man{section}/{page}")
