# SPDX-License-Identifier: Apache-2.0
"""Failed tests, each with the command that repeats it. A runner reports them at its end; `make test` (tests/run-stages)
collects them in a file, which FAILURES names, and reports them once more at the end of all."""
import os
import shlex


def repeat_command(make, **variables):
    """@make ("make e2e") with variables: a line for the shell. A dollar of theirs is make's, too."""
    return " ".join([make, *(f"{name}={shlex.quote(value.replace('$', '$$'))}" for name, value in variables.items())])


def report(failures):
    """@failures: pairs of what failed and the command that repeats it."""
    lines = [f"FAILED {what} (repeat: {command})" for what, command in failures]
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    if os.environ.get("FAILURES"):
        with open(os.environ["FAILURES"], "a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
