# SPDX-License-Identifier: MIT
"""Writes gpu-report.json, and gpu-report.md with the same content for people."""
import json
import os

import results
from runner import PASSED, SKIPPED, TIMED_OUT


def verdict(content, case_counts):
    """Lists what is wrong, in a sentence each. For `case_counts` see results.case_counts()."""
    complaints = list(content["complaints"])
    for phase in content["phases"]:
        if phase["name"] in content["excused"]:
            continue
        if phase["status"] == TIMED_OUT and phase["limit"] == 0:
            complaints.append(f"there was no time left for {phase['name']}")
        elif phase["status"] == TIMED_OUT:
            complaints.append(f"{phase['name']} did not end within {phase['limit']:.0f} s")
        elif phase["status"] not in (PASSED, SKIPPED):
            complaints.append(f"{phase['name']} ended with status {phase['status']}")
    for case in content["cases"]:
        if case["result"] in ("failed", "begun"):
            what = "failed" if case["result"] == "failed" else "did not end"
            complaints.append(f"{case['program']}: \"{case['case']}\" {what}")
    for part, program, expected in case_counts:
        ran = results.ran_alone(content["cases"], program)
        if content["has_gpu"] and part in content["parts"] and ran < expected:
            complaints.append(f"{program}: {ran} test cases ran, and {expected} should have")
    return complaints


def write(content, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "gpu-report.json"), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    with open(os.path.join(folder, "gpu-report.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(_markdown(content)) + "\n")


def _markdown(content):
    yield "# GPU report"
    yield ""
    if not content["has_gpu"]:
        yield "There was no GPU: this was a dry run, and nothing here is about one."
        yield ""
    yield f"This is about {' and '.join(content['parts'])}."
    yield ""
    yield "**Failed:**" if content["failures"] else "**Nothing failed.**"
    yield from (f"- {each}" for each in content["failures"])
    yield from (f"- {name} {why}" for name, why in content["excused"].items())
    yield from (f"- {each}" for each in content["warnings"])
    yield from _table("Machine", ("what", "found"), content["machine"].items())
    states = content["gpu_states"]
    if states:
        titles, *rows = ((name, *(state.get(name, "") for state in states)) for name in states[0])
        yield from _table("nvidia-smi", titles, rows)
    yield from _table("Phases", ("phase", "status", "seconds", "limit"),
                      [(p["name"], p["status"], f"{p['seconds']:.1f}", f"{p['limit']:.0f}")
                       for p in content["phases"]])
    yield from _table("Training steps of ours over those of PyTorch, one measured after the other",
                      ("model", "batch", "precision", "ranks", "ours (images/s)", "PyTorch's",
                       "(images/s)", "ratio of times"),
                      [_rivals_row(*each) for each in results.rivals(content["figures"])])
    yield from _table("Figures", ("figure", "median", "spread", "unit", "n", "labels"),
                      [_figure_row(each) for each in content["figures"]])
    yield from _table("Benchmarks", ("benchmark", "command"), content["benchmarks"])
    yield from _table("Tests", ("test", "result", "seconds"),
                      [(t["test"], t["result"], t["seconds"]) for t in content["tests"]])
    yield from _table("Test cases", ("program", "case", "result", "seconds"),
                      [(c["program"], c["case"], c["result"], f"{c['seconds']:.2f}")
                       for c in content["cases"]])
    for name, text in content["tails"].items():
        yield from ("", f"## The end of {name}.log", "", "````", text, "````")


def _rivals_row(ours, other):
    return (*(other[label] for label in ("model", "batch", "precision", "ranks")),
            f"{ours['images_per_s']:.5g}", f"{other['mode']}, {other['layout']}",
            f"{other['images_per_s']:.5g}", f"{ours['median'] / other['median']:.3f}")


def _figure_row(figure):
    known = ("figure", "median", "spread", "unit", "n")
    labels = ", ".join(f"{key} {value}" for key, value in figure.items() if key not in known)
    median, spread = f"{figure['median']:.5g}", f"{figure['spread']:.3g}"
    if figure.get("n") == 0:  # not measured; the label `error` says why
        median = spread = "–"
    return (figure["figure"], median, spread, figure["unit"], figure.get("n", ""), labels)


def _table(title, columns, rows):
    yield from ("", f"## {title}", "", _row(columns), _row("---" for _ in columns))
    yield from (_row(row) for row in rows)


def _row(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
