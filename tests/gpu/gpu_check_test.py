#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests how scripts/gpu_check reads and reports the files of a run."""
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "gpu_check"))
import main as gpu_check
import report
import results
from runner import PASSED, SKIPPED, TIMED_OUT, Outcome, Runner

CTEST_LOG = """Test project /build
      Start 81: gpu_buffer_ops_test
 1/5 Test #81: gpu_buffer_ops_test ..............   Passed    1.23 sec
 2/5 Test  #7: gpu_nccl_test ....................***Failed    0.05 sec
SKIPPED: no GPU
 3/5 Test #83: gpu_data_test ....................***Skipped   0.01 sec
 4/5 Test #84: gpu_engine_test ..................***Timeout 300.01 sec
 5/5 Test #85: gpu_bring ..***Failed  Required regular expression not found. Regex=[x]  2.00 sec
"""


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = directory.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_ctest_lines(self):
        found = results.tests(self.write("tests.log", CTEST_LOG))
        self.assertEqual([each["test"] for each in found],
                         ["gpu_buffer_ops_test", "gpu_nccl_test", "gpu_data_test",
                          "gpu_engine_test", "gpu_bring"])
        self.assertEqual([each["result"].split()[0] for each in found],
                         ["passed", "failed", "skipped", "timeout", "failed"])
        self.assertEqual(found[3]["seconds"], 300.01)

    def test_cases_of_a_program_that_crashed_are_known(self):
        self.write("a.cases", "begun\t0\tone\npassed\t0.5\tone\nbegun\t0\ttwo\npassed\t0.1")
        self.write("a-1-of-2.cases", "begun\t0\tone\npassed\t1\tone\n")
        cases = results.cases(self.folder)
        self.assertEqual([(c["program"], c["case"], c["result"]) for c in cases],
                         [("a-1-of-2", "one", "passed"), ("a", "one", "passed"),
                          ("a", "two", "begun")])
        self.assertEqual(results.ran_alone(cases, "a"), 1)

    def test_figures_are_lines_of_json(self):
        log = self.write("b.log", 'text\n{"figure": "copy", "unit": "GB/s", "median": 1, "spread": '
                                  '0.1, "n": 5, "bytes": 8}\n{"figure": "lame"}\n')
        figures, complaints = results.figures(log)
        self.assertEqual(figures, [{"figure": "copy", "unit": "GB/s", "median": 1.0, "spread": 0.1,
                                    "n": 5, "bytes": 8}])
        self.assertEqual(len(complaints), 1)

    def content(self, **changes):
        return {"has_gpu": True, "parts": [*gpu_check.PARTS], "packed": None, "chosen": [],
                "machine": {"commit": "abc"}, "gpu_states": [], "tests": [], "phases": [], "complaints": [], "tails": {}, "failures": [], "figures": [],
                "excused": {}, "warnings": [], "benchmarks": [],
                "cases": [{"program": "a", "case": "one", "result": "passed", "seconds": 1}],
                **changes}

    def test_too_few_cases_fail(self):
        one, two = (results.case_counts(f"tests a {number}\n") for number in (1, 2))
        self.assertEqual(report.verdict(self.content(), one), [])
        self.assertEqual(report.verdict(self.content(), two),
                         ["a: 1 test cases ran, and 2 should have"])
        self.assertEqual(report.verdict(self.content(has_gpu=False, cases=[]), two), [])
        self.assertEqual(report.verdict(self.content(parts=["benchmarks"], cases=[]), two), [])
        self.assertEqual(report.verdict(self.content(parts=["ranks"], cases=[]), two), [])

    def test_case_counts_can_be_read(self):
        with open(gpu_check.CASE_COUNTS, encoding="utf-8") as file:
            counts = results.case_counts(file.read())
        self.assertEqual({part for part, _, _ in counts}, {"tests", "ranks"})
        self.assertGreater(min(cases for _, _, cases in counts), 0)

    def test_a_sanitizer_may_be_cut_off_but_finds_errors_before(self):
        fine = self.write("fine.log", "========= COMPUTE-SANITIZER\n")
        bad = self.write("bad.log", "========= COMPUTE-SANITIZER\n========= Invalid read of size 4")
        self.assertEqual(results.sanitizer_errors(fine), [])
        cut = self.write("cut.log", "========= Error: Target application terminated before first "
                         "instrumented API call\n")
        self.assertEqual(results.sanitizer_errors(bad), ["Invalid read of size 4"])
        self.assertEqual(results.sanitizer_errors(cut), [])
        phase = {"name": "memcheck a", "status": TIMED_OUT, "seconds": 50, "limit": 50}
        self.assertEqual(report.verdict(self.content(phases=[phase]), []),
                         ["memcheck a did not end within 50 s"])
        self.assertEqual(report.verdict(self.content(phases=[phase],
                                                     excused={"memcheck a": "was cut off"}), []), [])

    def after_sanitizer(self, status, log="none", tool="/bin/compute-sanitizer", **changes):
        content = self.content(**changes)
        with mock.patch("shutil.which", return_value=tool):
            gpu_check.sanitize(lambda name, command, limit: Outcome(name, status, 1, limit, log),
                               content, "memcheck", "a")
        return content

    def sanitizer_that_skips(self, tool, **changes):
        """Returns the complaints about a sanitizer whose program, or which itself, exits with 77."""
        return self.after_sanitizer(SKIPPED, tool=tool, **changes)["complaints"]

    def test_a_sanitizer_that_cannot_use_the_gpu_is_told_and_no_failure(self):
        log = self.write("a.log", "========= COMPUTE-SANITIZER\n========= Error: Device not "
                                  "supported. Please refer to the documentation\n")
        excused = self.after_sanitizer(1, log)["excused"]
        phase = {"name": "memcheck a", "status": 1, "seconds": 1, "limit": 50}
        self.assertEqual(report.verdict(self.content(phases=[phase], excused=excused), []), [])
        self.assertEqual(self.after_sanitizer(1)["excused"], {})
        report.write(self.content(excused=excused), self.folder)
        with open(os.path.join(self.folder, "gpu-report.md"), encoding="utf-8") as file:
            self.assertIn("- memcheck a checked nothing: compute-sanitizer does not", file.read())

    def test_a_sanitizer_that_hides_the_gpu_fails(self):
        self.assertEqual(self.sanitizer_that_skips("/bin/compute-sanitizer"),
                         ["memcheck a saw no GPU, though there is one"])
        self.assertEqual(self.sanitizer_that_skips("/bin/compute-sanitizer", has_gpu=False), [])
        self.assertEqual(self.sanitizer_that_skips(None), [])

    def test_what_never_began_is_no_success(self):
        phase = {"name": "memcheck a", "status": TIMED_OUT, "seconds": 0, "limit": 0}
        self.assertEqual(report.verdict(self.content(phases=[phase]), []),
                         ["there was no time left for memcheck a"])

    def test_both_reports_are_written(self):
        figure = {"figure": "copy", "unit": "GB/s", "median": 4123.456, "spread": 1.5, "n": 5,
                  "bytes": 8}
        states = [{"what": "GPU 0 at the " + moment, "clocks.sm": "345 MHz"}
                  for moment in ("start", "end")]
        content = self.content(figures=[figure], gpu_states=states, failures=["it failed"],
                               tails={"tests": "the end"})
        report.write(content, self.folder)
        with open(os.path.join(self.folder, "gpu-report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), content)
        with open(os.path.join(self.folder, "gpu-report.md"), encoding="utf-8") as file:
            text = file.read()
        for part in ("- it failed", "| commit | abc |", "the end", "| a | one | passed | 1.00 |",
                     "| copy | 4123.5 | 1.5 | GB/s | 5 | bytes 8 |",
                     "| what | GPU 0 at the start | GPU 0 at the end |"):
            self.assertIn(part, text)

    def test_our_training_steps_are_put_beside_the_same_ones_of_pytorch(self):
        ours = {"figure": "training step", "unit": "ms", "median": 3.0, "spread": 0.1, "n": 5,
                "by": "libddp", "model": "lenet5", "batch": 64.0, "image": 28.0,
                "precision": "float32", "ranks": 1.0, "images_per_s": 21333.3}
        same = {**ours, "by": "PyTorch 2", "batch": 64, "image": 28, "ranks": 1, "median": 4.0,
                "images_per_s": 16000.0, "mode": "compile", "layout": "NCHW"}
        content = self.content(figures=[ours, same, {**same, "precision": "tf32"}])
        report.write(content, self.folder)
        with open(os.path.join(self.folder, "gpu-report.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| lenet5 | 64 | float32 | 1 | 21333 | compile, NCHW | 16000 | 0.750 |", text)
        self.assertEqual(text.count("| 0.750 |"), 1)

    def test_what_could_not_be_measured_has_no_figure(self):
        log = self.write("b.log", '{"figure": "compile", "unit": "ms", "median": 0, "spread": 0.0, '
                                  '"n": 0, "error": "no compiler"}\n')
        report.write(self.content(figures=results.figures(log)[0]), self.folder)
        with open(os.path.join(self.folder, "gpu-report.md"), encoding="utf-8") as file:
            self.assertIn("| compile | – | – | ms | 0 | error no compiler |", file.read())

    def test_a_gpu_that_is_gone_at_the_end_is_reported(self):
        state = {"what": "GPU 0 at the start", "clocks.sm": "345 MHz"}
        report.write(self.content(gpu_states=[state]), self.folder)
        with open(os.path.join(self.folder, "gpu-report.md"), encoding="utf-8") as file:
            self.assertIn("| what | GPU 0 at the start |", file.read())

    def phases_of(self, **changes):
        """Returns the command of each phase by name."""
        phases = {}

        def run(name, command, limit, **_):
            phases[name] = command
            return Outcome(name, PASSED, 1, limit, "none")

        with mock.patch("machine.facts", return_value={}), mock.patch.dict(os.environ), \
                mock.patch("main.provide_fashion_mnist"), mock.patch("main.unpack", return_value={}):
            gpu_check.go_through(mock.Mock(run=run), self.content(**changes))
        return phases

    def test_parts_can_be_left_out(self):
        some = {"tests", "tests of ranks", "memcheck gpu_buffer_ops_test", "benchmark 1"}
        for parts, expected in ((["tests"], {"tests", "memcheck gpu_buffer_ops_test"}),
                                (["ranks"], {"tests of ranks"}), (["benchmarks"], {"benchmark 1"}),
                                (["ranks", "benchmarks"], {"tests of ranks", "benchmark 1"})):
            self.assertEqual(some & set(self.phases_of(parts=parts)), expected)

    def test_benchmarks_can_be_chosen(self):
        phases = self.phases_of(parts=["benchmarks"], chosen=[2, 3])
        self.assertEqual([name for name in phases if name.startswith("benchmark")],
                         ["benchmark 2", "benchmark 3"])

    def test_only_what_runs_is_built(self):
        self.assertEqual({"gpu_tests", "bench_step"} - set(self.phases_of()["build"]), set())
        self.assertNotIn("gpu_tests", self.phases_of(parts=["benchmarks"])["build"])
        self.assertNotIn("bench_step", self.phases_of(parts=["ranks"])["build"])
        self.assertEqual({"configure", "build"} & set(self.phases_of(packed="a.tar.xz")), set())

    def phases_of_tests(self, status, log_text):
        """Returns the environment of each phase by name and the content of the report, given how the
    test of sharing ended."""
        log = self.write("sharing.log", log_text)
        content, phases = self.content(), {}

        def run(name, command, limit, **environment):
            phases[name] = environment
            return Outcome(name, status if name == gpu_check.SHARING else PASSED, 1, limit, log)

        gpu_check.test(run, content)
        return phases, content

    def test_ranks_are_tested_if_they_can_share_the_gpu(self):
        phases, content = self.phases_of_tests(PASSED, "Sharing a GPU works as it is\n")
        self.assertEqual([each for each in phases if "check" not in each],
                         ["sharing", "tests", "tests of ranks"])
        self.assertNotIn("NCCL_CUMEM_ENABLE", phases["tests of ranks"])
        self.assertEqual(content["warnings"] + content["complaints"], [])
        phases, content = self.phases_of_tests(SKIPPED, "SKIPPED: no GPU\n")
        self.assertIn("tests of ranks", phases)
        phases, content = self.phases_of_tests(1, "Sharing a GPU fails as it is: exit code 1\n")
        self.assertNotIn("tests of ranks", phases)
        self.assertEqual(content["complaints"],
                         ["tests of ranks that share the GPU did not run"])

    def test_all_tests_run_with_what_ranks_need_to_share_the_gpu(self):
        phases, content = self.phases_of_tests(1, "Sharing a GPU fails as it is: exit code 1\n"
                                                  "Sharing a GPU works with A_B=0 C=0\n")
        for phase in ("tests", "tests of ranks"):
            self.assertEqual({name: phases[phase][name] for name in ("A_B", "C")},
                             {"A_B": "0", "C": "0"})
        self.assertEqual(content["warnings"],
                         ["tests ran with A_B=0 C=0; ranks cannot share the GPU without"])

    def test_a_figure_may_come_with_a_warning(self):
        log = self.write("b.log", '{"figure": "step", "unit": "us", "median": 3, "spread": 0, '
                                  '"n": 9, "warning": "it is coarse"}\n')
        content = self.content()
        gpu_check.measure(lambda name, command, limit, **_: Outcome(name, PASSED, 1, limit, log),
                          content, [(5, "x")])
        self.assertEqual(content["warnings"], ["benchmark 1: it is coarse"])

    def test_a_skipped_benchmark_is_told(self):
        log = self.write("b.log", "SKIPPED: No module named 'torch'\n")
        content = self.content()
        gpu_check.measure(lambda name, command, limit, **_: Outcome(name, SKIPPED, 1, limit, log),
                          content, [(5, "python3 x.py")])
        self.assertEqual(content["warnings"], ["benchmark 1: SKIPPED: No module named 'torch'"])

    def test_commands_end_within_their_limit(self):
        runner = Runner(self.folder, 100)
        self.assertEqual(runner.run("fine", ["sh", "-c", "echo $A"], 50, A="b").status, PASSED)
        self.assertEqual(results.tail(runner.outcomes[0].log), "b")
        self.assertEqual(runner.run("slow", "sleep 1000", 0.1).status, TIMED_OUT)
        self.assertEqual(runner.run("absent", ["/no/such/program"], 5).status, 127)
        self.assertEqual(Runner(self.folder, 0).run("late", "true", 5).status, TIMED_OUT)


if __name__ == "__main__":
    unittest.main()
