"""scripts/campaign: plans, launching, time limits, verdicts, sheets, resuming, baselines. Most tests use stubs in place of
the executables, so that every way a step can end is tried in a moment; the class Real runs the real ones."""
import json
import os
import shutil
import signal
import sys
import time
import unittest

import tt

CAMPAIGN = tt.ROOT / "scripts/campaign"
sys.path.insert(0, str(tt.ROOT / "scripts"))
sys.dont_write_bytecode = True
from campaign_lib import codes, devices, hostlist, judge, recording  # noqa: E402

# Stands in for any executable. Its arguments: what to do, one after the other; the harness's options are accepted.
STUB = r'''#!{python}
import json, os, signal, subprocess, sys, time
args, told = sys.argv[1:], dict()
document = dict(record_version=1, tool=os.path.basename(sys.argv[0]), verdict="pass", exit_code=0, reason="", injection=None,
                culprit=None, rows=[], versions=dict(MPI="stub 1"),
                ranks=[dict(rank=r, host="h%d" % r, device=dict(kind="cuda", name="Stub GPU", pci="0000:0%d:00.0" % r, uuid="GPU-%d" % r)) for r in range(2)])
def row(key, value, verdict="pass", metric="busbw_GBps", size=1024, **more):
    document["rows"].append(dict(key=key, group=key.split("/")[0], size=size, main_metric=metric, verdict=verdict,
                                 metrics=dict([(metric, dict(n=1, median=value))]), limit_ratio=0.5,
                                 slowest=dict(rank=1, ratio=1.5, outlier=True, reason="own time"), **more))
def write(text=None):
    if rank0:
        open(told["--json"], "w").write(json.dumps(document) if text is None else text)
rank0 = os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0"
actions = []
while args:
    word = args.pop(0)
    if word in ("--json", "--device", "-T", "--inject"):
        told[word] = args.pop(0)
    else:
        actions.append(word)
if "--inject" in told:
    document["injection"] = told["--inject"]
code = 0
for action in actions:
    what, _, value = action.partition("=")
    if what == "row":
        key, _, number = value.partition(":")
        row(key, json.loads(number or "10"))
    elif what == "write": write(value or None)
    elif what == "code":
        code = int(value)
        document.update(exit_code=code, verdict="fail", reason="the stub's reason", culprit=dict(rank=1, host="h1", device=None))
    elif what == "exit": sys.exit(int(value))
    elif what == "say": print(value)
    elif what == "cry": print(value, file=sys.stderr)
    elif what == "log": open(value, "a").write("x")
    elif what == "hang":
        sys.stdout.flush()
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if value == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True: time.sleep(1)
    elif what == "kill": os.kill(os.getpid(), int(value))
sys.exit(code)
'''


class Case(tt.TestCase):
    def setUp(self):
        self.build = self.tmp / "bin"
        self.build.mkdir()
        for name in ("one_perf", "two_perf", "three_perf"):
            self.script(self.build / name, STUB.replace("{python}", sys.executable))
        self.env = {"CUDA_VISIBLE_DEVICES": ""}

    def script(self, path, text):
        path.write_text(text)
        path.chmod(0o755)
        return path

    def plan(self, text, name="plan.toml"):
        path = self.tmp / name
        path.write_text(text)
        return path

    def steps(self, *steps, top=""):
        """A plan of steps (id, executable, actions, more lines)."""
        text = f'name = "t"\n{top}\n[defaults]\nranks = 1\ntime_limit_s = 30\n'
        for step_id, executable, actions, *more in steps:
            text += f'[[step]]\nid = "{step_id}"\nexecutable = "{executable}"\nargs = {json.dumps(actions)}\n'
            text += "\n".join(more) + "\n"
        return self.plan(text)

    def campaign(self, *args, timeout=60, env=None):
        return tt.run(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", self.tmp / "out", *args,
                      timeout=timeout, env={**self.env, **(env or {})})

    def sheet(self, folder="out"):
        """sheet.json, after a look at the other two."""
        folder = self.tmp / folder
        sheet = tt.record(folder / "sheet.json")
        for name in ("sheet.md", "sheet.txt"):
            text = (folder / name).read_text()
            for step in sheet["steps"]:
                self.assertIn(step["verdict"], text)
                for figure in judge.headline(step["figures"])[:1]:
                    self.assertIn(figure["key"], text)
        self.assertEqual([n for n in tt.files_in(folder) if n.startswith(".")], [])
        return sheet

    def drop_output(self):
        shutil.rmtree(self.tmp / "out")

    def verdicts(self, sheet=None):
        return [(s["id"], s["verdict"]) for s in (sheet or self.sheet())["steps"]]


class Verdicts(Case):
    def test_a_good_campaign(self):
        r = self.campaign(self.steps(("T1", "one_perf", ["row=a/1:12.5", "write"]), ("T2", "two_perf", ["row=b", "write"])))
        self.assert_rc(r, 0)
        self.assertEqual(r.leftovers, {})
        sheet = self.sheet()
        self.assertEqual(self.verdicts(sheet), [("T1", "PASS"), ("T2", "PASS")])
        self.assertEqual((sheet["verdict"], sheet["exit_code"]), ("PASS", 0))
        figure = sheet["steps"][0]["figures"][0]
        self.assertEqual((figure["value"], figure["unit"], figure["limit_ratio"]), (12.5, "GB/s", 0.5))
        self.assertIn("rank 1 on h1 (Stub GPU 0000:01:00.0), 1.50x own time, OUTLIER", sheet["steps"][0]["slowest"])
        self.assertEqual(tt.files_in(self.tmp / "out/T1-one_perf"), ["record.json", "stderr", "stdout"])
        self.assert_says(r, "12.50 GB/s", "2 PASS", "h0, h1", "MPI stub 1")

    def test_not_measured_never_passes(self):
        for actions, reason in ((["exit=0"], "no record was written"),
                                (["write=", "exit=0"], "no rows"),
                                (["write={", "exit=0"], "not JSON"),
                                (['write={"rows": NaN}', "exit=0"], "not JSON"),
                                (['write={"record_version": 1, "tool": "x", "rows": []}'], "no valid verdict"),
                                (['write={"record_version": 9, "tool": "x", "rows": []}'], "version 9"),
                                (["row=a:null", "write"], "no figure")):
            with self.subTest(actions=actions):
                r = self.campaign(self.steps(("T1", "one_perf", actions)))
                self.assert_rc(r, 1)
                step = self.sheet()["steps"][0]
                self.assertEqual(step["verdict"], "FAIL")
                self.assertIn("not measured", step["reason"])
                self.assertIn(reason, step["reason"])
                self.drop_output()

    def test_exit_status_and_record_the_worse_counts(self):
        for actions, code in ((["row=a", "code=1", "write", "exit=0"], 1), (["row=a", "write", "exit=4"], 4),
                              (["row=a", "code=4", "write", "exit=1"], 4), (["exit=77"], 77), (["exit=9"], 3),
                              (["row=a", "write", "kill=11"], 3), (["cry=one_perf: -b: bad", "exit=2"], 2)):
            with self.subTest(actions=actions):
                self.assert_rc(self.campaign(self.steps(("T1", "one_perf", actions))), code)
                self.assertEqual(self.sheet()["exit_code"], code)
                self.drop_output()

    def test_reasons_and_culprits(self):
        self.campaign(self.steps(("T1", "one_perf", ["row=a", "code=1", "write"]), ("T1.2", "two_perf", ["kill=11"]),
                                 ("T1.3", "three_perf", ["cry=noise", "cry=three_perf: no such thing: 7", "cry=----", "exit=3"])))
        first, second, third = self.sheet()["steps"]
        self.assertEqual((first["reason"], first["culprit"]), ("the stub's reason", "rank 1 on h1 (Stub GPU 0000:01:00.0)"))
        self.assertIn("SIGSEGV", second["reason"])
        self.assertEqual(third["reason"], "three_perf: no such thing: 7")

    def test_stops_climbing_but_finishes_the_layer(self):
        plan = self.steps(("T1", "one_perf", ["exit=1"]), ("T1.b", "two_perf", ["row=a", "write"]),
                          ("T2", "three_perf", ["row=a", "write"]))
        self.assert_rc(self.campaign(plan), 1)
        sheet = self.sheet()
        self.assertEqual(self.verdicts(sheet), [("T1", "FAIL"), ("T1.b", "PASS"), ("T2", "NOT RUN")])
        self.assertIn("layer 1 failed", sheet["steps"][2]["reason"])

    def test_a_skipped_step_does_not_stop_but_does_not_pass(self):
        plan = self.steps(("T1", "one_perf", ["cry=no such hardware", "exit=77"]), ("T2", "two_perf", ["row=a", "write"]))
        self.assert_rc(self.campaign(plan), 77)
        self.assertEqual(self.verdicts(), [("T1", "SKIPPED"), ("T2", "PASS")])

    def test_keep_going_ends_with_the_worst_code(self):  # C19
        plan = self.plan('''
            [[step]]
            id = "T1"
            command = ["sh", "-c", "echo GPU 0: FAULTY; exit 0"]
            figures = { gflops = { regex = "([0-9.]+) Gflop/s", unit = "GFLOPS", better = "higher" } }
            [[step]]
            id = "T2"
            command = ["sh", "-c", "exit 4"]
            [[step]]
            id = "T3"
            command = ["true"]''')
        r = self.campaign(plan, "--keep-going")
        self.assert_rc(r, 4)
        sheet = self.sheet()
        self.assertEqual(self.verdicts(sheet), [("T1", "FAIL"), ("T2", "WRONG DATA"), ("T3", "PASS")])
        self.assertIn("no figure found: gflops", sheet["steps"][0]["reason"])

    def test_severity_is_the_contracts(self):
        self.assertEqual(codes.worst([0, 77]), 77)
        order = [0, 77, 1, 2, 3, 5, 4]
        for i, code in enumerate(order):
            self.assertEqual(codes.worst(order[:i + 1]), code)

    def test_injected_faults_are_marked_loudly(self):
        plan = self.steps(("T1", "one_perf", ["row=a", "write"], "ranks = 1"))
        r = self.campaign(plan, "--inject", "slow:rank=0,factor=2")
        self.assert_rc(r, 0)
        self.assertEqual(self.sheet()["steps"][0]["injected"], "slow:rank=0,factor=2")
        self.assert_says(r, "*** FAULTS WERE INJECTED", "INJECTED FAULT: slow:rank=0,factor=2")
        self.assertIn("FAULTS WERE INJECTED", (self.tmp / "out/sheet.md").read_text())

    def test_a_fault_that_cannot_happen_is_refused(self):
        r = self.campaign(self.steps(("T1", "one_perf", ["row=a", "write"])), "--inject", "die:rank=7")
        self.assert_usage_error(r, "--inject", "die:rank=7")

    def test_repeats(self):
        plan = self.steps(("T1", "one_perf", ["row=a", "write", f"log={self.tmp}/log"], "repeat = 3"))
        self.assert_rc(self.campaign(plan), 0)
        self.assertEqual((self.tmp / "log").read_text(), "xxx")
        step = self.sheet()["steps"][0]
        self.assertEqual((len(step["attempts"]), step["figures"][0]["runs"]), (3, [10, 10, 10]))
        self.assertEqual(tt.files_in(self.tmp / "out/T1-one_perf"), ["run-1", "run-2", "run-3"])


class OutsideCommands(Case):
    def outside(self, output, figure, *more):
        plan = self.plan(f'[[step]]\nid = "T4"\nname = "nccl"\ncommand = ["printf", {json.dumps(output)}]\n'
                         f"figures = {{ bw = {{ {figure} }} }}\n" + "\n".join(more))
        return self.campaign(plan)

    def test_figures(self):
        for figure, value in (("pick = 'last'", 30.5), ("pick = 'first'", 10), ("pick = 'min'", 10), ("pick = 'max'", 30.5),
                              ("pick = 'median'", 20)):
            with self.subTest(figure):
                out = self.tmp / "out"
                r = self.outside("bw: 10\\nbw: 20\\nbw: 30.5\\n", f"regex = 'bw: (.*)$', unit = 'GB/s', {figure}")
                self.assert_rc(r, 0)
                found = tt.record(out / "sheet.json")["steps"][0]["figures"][0]
                self.assertEqual((found["value"], found["unit"], found["key"]), (value, "GB/s", "nccl/bw"))
                self.drop_output()

    def test_limits_of_a_figure(self):
        self.assert_rc(self.outside("bw: 10\\n", "regex = 'bw: (.*)', min = 11"), 1)
        self.assertIn("10", self.sheet()["steps"][0]["reason"])
        self.assertIn("below 11", self.sheet()["steps"][0]["reason"])

    def test_a_figure_that_is_no_number(self):
        self.assert_rc(self.outside("bw: nan\\n", "regex = 'bw: (.*)'"), 1)
        self.assertIn("no figure found", self.sheet()["steps"][0]["reason"])

    def test_forbidden_words(self):
        self.assert_rc(self.outside("bw: 10 GPU 3: FAULTY\\n", "regex = 'bw: ([0-9]+)'", "forbid = 'FAULTY'"), 1)
        self.assertIn("FAULTY", self.sheet()["steps"][0]["reason"])

    def test_a_command_that_is_not_there(self):
        self.assert_rc(self.campaign(self.plan('[[step]]\nid = "T1"\ncommand = ["/no/such/command"]')), 3)
        self.assertIn("No such file", self.sheet()["steps"][0]["reason"])

    def test_placeholders(self):
        plan = self.plan('[[step]]\nid = "T1"\ncommand = ["echo", "nodes={nodes} gpus={gpus} hosts={hosts} {x}"]\n'
                         "figures = { n = { regex = 'nodes=([0-9]+) gpus=0 hosts=localhost {x}' } }")
        self.assert_rc(self.campaign(plan), 0)

    def test_baseline_for_an_outside_figure(self):
        (self.tmp / "b.json").write_text(json.dumps(baseline([("nccl/bw", "bw", 20)])))
        self.assert_rc(self.outside("bw: 10\\n", "regex = 'bw: (.*)'", "baseline = 'b.json'"), 1)
        self.assertEqual(self.sheet()["steps"][0]["figures"][0]["baseline_ratio"], 0.5)


def baseline(entries, **more):
    return {"baseline_version": 1, "sku": "stub", "entries": [
        {"key": key, "metric": metric, "value": value, "direction": "higher", "origin": "measured", **more}
        for key, metric, value in entries]}


class Baselines(Case):
    def judged(self, entries, *actions, where="step", **more):
        text = entries if isinstance(entries, str) else json.dumps(baseline(entries, **more))
        (self.tmp / "b.json").write_text(text)
        at_step, top, args = [], "", []
        if where == "step":
            at_step = ['baseline = "b.json"']
        elif where == "plan":
            top = 'baseline = "b.json"'
        else:
            args = ["--baseline", self.tmp / "b.json"]
        plan = self.steps(("T1", "one_perf", [*actions, "write"], *at_step), top=top)
        return self.campaign(plan, *args)

    def test_ratios(self):
        self.assert_rc(self.judged([("a/1", "busbw_GBps", 11)], "row=a/1:10"), 0)
        self.assertAlmostEqual(self.sheet()["steps"][0]["figures"][0]["baseline_ratio"], 10 / 11)

    def test_below(self):
        self.assert_rc(self.judged([("a/1", "busbw_GBps", 12)], "row=a/1:10"), 1)
        self.assertIn("a/1: busbw_GBps 10 is 0.833 of the baseline 12 (gate 0.9)", self.sheet()["steps"][0]["reason"])

    def test_tolerance_and_window(self):
        self.assert_rc(self.judged([("a/1", "busbw_GBps", 12)], "row=a/1:10", tolerance=0.2), 0)

    def test_a_key_no_row_has(self):  # C18
        for where in ("step", "plan", "option"):
            with self.subTest(where):
                self.assert_rc(self.judged([("a/1", "busbw_GBps", 10), ("a/2", "busbw_GBps", 10)], "row=a/1:10", where=where), 1)
                step = self.sheet()["steps"][0]
                self.assertEqual(step["verdict"], "FAIL")
                self.assertIn("not measured: a/2", step["reason"])
                self.drop_output()

    def test_a_metric_that_is_null(self):  # C18
        self.assert_rc(self.judged([("a/1", "busbw_GBps", 10)], "row=a/1:null", "row=b:3"), 1)
        self.assertIn("not measured: a/1", self.sheet()["steps"][0]["reason"])

    def test_broken_file(self):  # C18: before anything is measured
        for text, problem in (("{", "JSON"), ('{"baseline_version": 1, "sku": "x", "entries": [{"key": "a"}]}', "entry 1"),
                              ('{"baseline_version": 2, "sku": "x", "entries": []}', "version"),
                              (json.dumps(baseline([("a", "m", 0)])), "not positive"),
                              (json.dumps(baseline([("a", "m", 1)], tolerence=1)), "tolerence"),
                              (json.dumps(baseline([("a", "m", 1), ("a", "m", 2)])), "second entry")):
            with self.subTest(text):
                r = self.judged(text, "row=a", f"log={self.tmp}/log")
                self.assert_rc(r, 3)
                self.assert_says(r, "b.json", problem)
                self.assertFalse((self.tmp / "log").exists())

    def test_gates_in_the_plan(self):
        gate = 'gate = [{ key = "a/1", metric = "busbw_GBps", min = %s }]'
        for limit, code in ((9, 0), (11, 1)):
            r = self.campaign(self.steps(("T1", "one_perf", ["row=a/1:10", "write"], gate % limit)), "--results", self.tmp)
            self.assert_rc(r, code)
            self.drop_output()
        self.assert_rc(self.campaign(self.steps(("T1", "one_perf", ["row=b:10", "write"], gate % 9))), 1)
        self.assertIn("not measured: a/1", self.sheet()["steps"][0]["reason"])


class Recording(Case):
    def runs(self, *values, actions=(), first=0):
        folders = []
        for number, value in enumerate(values, first):
            plan = self.steps(("T1", "one_perf", [f"row=a/1:{value}", *actions, "write"]))
            folders.append(self.tmp / f"run{number}")
            tt.run(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", folders[-1], plan, env=self.env)
        return folders

    def record(self, *args):
        return tt.run(CAMPAIGN, "--record-baseline", self.tmp / "b.json", *args, env=self.env)

    def test_median_of_runs_without_outliers(self):
        r = self.record("--from", *self.runs(10, 10.1, 9.9, 10, 5))
        self.assert_rc(r, 0)
        self.assert_says(r, "outlier dropped: 5 busbw_GBps of run4")
        document = tt.record(self.tmp / "b.json")
        entry = document["entries"][0]
        self.assertEqual((document["sku"], entry["key"], entry["metric"], entry["value"]), ("stub-gpu", "a/1", "busbw_GBps", 10))
        self.assertEqual((entry["direction"], entry["origin"], entry["tool"]), ("higher", "measured", "one_perf"))
        self.assertGreaterEqual(entry["tolerance"], 0.05)
        self.assertIn("run4", document["comment"])

    def test_what_was_recorded_is_accepted(self):
        plan = self.steps(("T1", "one_perf", ["row=a/1:10", "write"], "repeat = 3"))
        self.assert_rc(self.campaign(plan, "--record-baseline", self.tmp / "b.json"), 0)
        r = tt.run(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", self.tmp / "again", "--baseline",
                   self.tmp / "b.json", plan, env=self.env)
        self.assert_rc(r, 0)
        self.assertEqual(self.sheet("again")["steps"][0]["figures"][0]["baseline_ratio"], 1)

    def test_failed_and_injected_runs_are_left_out(self):
        r = self.record("--from", *self.runs(7, actions=["code=1"], first=5))
        self.assert_rc(r, 3)
        self.assert_says(r, "no good run", "FAIL")
        plan = self.steps(("T1", "one_perf", ["row=a/1:3", "write"]))
        injected = self.tmp / "injected"
        tt.run(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", injected, "--inject", "slow:rank=0", plan,
               env=self.env)
        r = self.record("--from", *self.runs(10), injected)
        self.assert_rc(r, 0)
        self.assert_says(r, "a fault was injected")
        self.assertEqual(tt.record(self.tmp / "b.json")["entries"][0]["value"], 10)

    def test_two_runs_that_disagree(self):
        self.assert_rc(self.record("--from", *self.runs(10, 5)), 3)

    def test_outliers(self):
        self.assertEqual(recording.outliers([10, 10, 10, 10, 9]), [4])
        self.assertEqual(recording.outliers([10, 10.2, 9.8, 10.1]), [])
        self.assertEqual(recording.outliers([10]), [])


class TimeLimits(Case):
    def test_limit_ends_the_whole_tree(self):  # C20
        for how in ("", "deaf"):
            with self.subTest(how):
                plan = self.steps(("T1", "one_perf", ["row=a:10", "write"]),
                                  ("T2", "two_perf", ["row=b:20", "write", f"hang={how}"], "time_limit_s = 2"))
                with tt.start(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", self.tmp / f"out{how}",
                              plan, env=self.env) as running:
                    r = running.wait(60)
                self.assert_rc(r, 5)
                self.assertEqual(r.leftovers, {})
                sheet = self.sheet(f"out{how}")
                self.assertEqual(self.verdicts(sheet), [("T1", "PASS"), ("T2", "TIMEOUT")])
                self.assertIn("time limit of 2 s", sheet["steps"][1]["reason"])
                self.assertEqual([s["figures"][0]["value"] for s in sheet["steps"]], [10, 20])

    def test_limit_under_mpirun(self):
        tt.require_program("mpirun")
        plan = self.steps(("T4", "two_perf", ["hang"], "ranks = 2\ntime_limit_s = 3"))
        r = tt.run(CAMPAIGN, "--build", self.build, "--output", self.tmp / "out", plan, env=self.env)
        self.assert_rc(r, 5)
        self.assertEqual(r.leftovers, {})
        self.assertEqual(self.verdicts(), [("T4", "TIMEOUT")])

    def test_a_process_left_behind_is_killed_and_noted(self):
        r = self.campaign(self.plan('[[step]]\nid = "T1"\ncommand = ["sh", "-c", "setsid sleep 1000 & exit 0"]'))
        self.assert_rc(r, 0)
        self.assertEqual(r.leftovers, {})
        self.assertIn("sleep", self.sheet()["steps"][0]["notes"][0])

    def test_interrupts_leave_valid_sheets(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                out = self.tmp / number.name
                plan = self.steps(("T1", "one_perf", ["row=a", "write"]), ("T2", "two_perf", ["hang"]),
                                  ("T3", "three_perf", ["row=c", "write"]))
                with tt.start(CAMPAIGN, "--build", self.build, "--launcher", "single", "--output", out, plan,
                              env=self.env) as running:
                    running.until(lambda r: any("two_perf" in c for c in r.processes().values()) and "sleep 1000"
                                  in " ".join(r.processes().values()))
                    during = tt.record(out / "sheet.json")
                    self.assertEqual((during["exit_code"], during["verdict"]), (3, "PENDING"))
                    os.kill(running.process.pid, number)
                    r = running.wait(30)
                self.assert_rc(r, 3)
                self.assertEqual(r.leftovers, {})
                sheet = self.sheet(number.name)
                self.assertEqual(self.verdicts(sheet), [("T1", "PASS"), ("T2", "ERROR"), ("T3", "NOT RUN")])
                self.assertIn(number.name, sheet["reason"])

    def test_the_tools_own_watchdog_comes_first(self):
        plan = self.steps(("T1", "one_perf", [], "time_limit_s = 100"), ("T2", "one_perf", ["-T", "7"]))
        r = self.campaign(plan, "--list")
        self.assert_says(r, "-T 90")
        self.assertNotIn("-T 24", r.out)


class Resuming(Case):
    def test_what_passed_is_not_repeated(self):
        log = self.tmp / "log"
        self.script(self.build / "flaky_perf", f"#!/bin/sh\ntest -e {self.tmp}/repaired || exit 1\n"
                                               f"exec {self.build}/two_perf row=b:7 write \"$@\"\n")
        plan = self.steps(("T1", "one_perf", ["row=a:5", "write", f"log={log}"]), ("T2", "flaky_perf", []),
                          ("T3", "three_perf", ["row=c", "write"]))
        self.assert_rc(self.campaign(plan), 1)
        self.assertEqual(self.verdicts(), [("T1", "PASS"), ("T2", "FAIL"), ("T3", "NOT RUN")])
        (self.tmp / "repaired").touch()
        r = tt.run(CAMPAIGN, "--resume", self.tmp / "out", env=self.env)
        self.assert_rc(r, 0)
        sheet = self.sheet()
        self.assertEqual(self.verdicts(sheet), [("T1", "PASS"), ("T2", "PASS"), ("T3", "PASS")])
        self.assertEqual(log.read_text(), "x")
        self.assertEqual([s["figures"][0]["value"] for s in sheet["steps"]], [5, 7, 10])
        self.assertIn("earlier run", sheet["steps"][0]["notes"][0])

    def test_a_changed_step_is_run_again(self):
        log = self.tmp / "log"
        self.assert_rc(self.campaign(self.steps(("T1", "one_perf", ["row=a:5", "write", f"log={log}"]))), 0)
        plan = self.steps(("T1", "one_perf", ["row=a:6", "write", f"log={log}"]))
        self.assert_rc(tt.run(CAMPAIGN, "--resume", self.tmp / "out", plan, env=self.env), 0)
        self.assertEqual((log.read_text(), self.sheet()["steps"][0]["figures"][0]["value"]), ("xx", 6))

    def test_no_campaign_there(self):
        r = tt.run(CAMPAIGN, "--resume", self.tmp, env=self.env)
        self.assert_rc(r, 3)
        self.assert_says(r, "sheet.json")
        (self.tmp / "sheet.json").write_text("{}")
        self.assert_rc(tt.run(CAMPAIGN, "--resume", self.tmp, env=self.env), 3)


class Plans(Case):
    def test_bad_plans_are_refused_before_anything_runs(self):
        good = f'[[step]]\nid = "T1"\nexecutable = "one_perf"\nargs = ["log={self.tmp}/log"]\n'
        for text, *says in (
                ("x = [", "plan.toml"), ("", "step"), ("nam = 'x'\n" + good, "nam", "unknown field"),
                (good + "tries = 3", "T1", "tries", "unknown field"), (good + 'time_limit_s = "5"', "T1", "time_limit_s"),
                (good + "time_limit_s = 0", "time_limit_s"), (good + "repeat = 0", "repeat"), (good + "repeat = true", "repeat"),
                (good + "ranks = 0", "ranks"), (good + 'ranks = "all"', "ranks"), (good + 'device = "gpu"', "device", "gpu"),
                (good + "[step.cuda]\nargz = []", "cuda.argz"), (good + '[step.cuda]\nranks = -1', "ranks"),
                (good + good, "twice"), ('[[step]]\nexecutable = "one_perf"', "id"), ('[[step]]\nid = "T1"', "executable"),
                ('[[step]]\nid = "X"\nexecutable = "one_perf"', "layer"), (good + 'command = ["x"]', "executable"),
                ('[[step]]\nid = "T1"\nexecutable = "x"\nargs = 3', "args"), (good + 'env = { A = 1 }', "env"),
                ('[[step]]\nid = "T1"\ncommand = ["x"]\nfigures = { a = { regex = "(" } }', "figures.a", "regex"),
                ('[[step]]\nid = "T1"\ncommand = ["x"]\nfigures = { a = { regex = "a" } }', "figures.a", "group"),
                ('[[step]]\nid = "T1"\ncommand = ["x"]\nfigures = { a = { regex = "(a)", better = "more" } }', "better"),
                (good + 'gate = [{ key = "a", metric = "m" }]', "gate 1", "min"),
                (good + "[defaults]\nexecutable = 'x'", "defaults", "executable"),
                ('[[step]]\nid = "T1"\nexecutable = "no_perf"', "T1", "executable", "no_perf")):
            with self.subTest(text):
                r = self.campaign(self.plan(text))
                self.assert_rc(r, 3)
                lines = r.err.strip().splitlines()
                self.assertEqual(len(lines), 1, r)
                for word in ("plan.toml", *says):
                    self.assertIn(word, lines[0])
                self.assertFalse((self.tmp / "log").exists())
                self.assertFalse((self.tmp / "out").exists())

    def test_bad_options(self):
        plan = self.steps(("T1", "one_perf", []))
        for args, *says in ((("--nope",), "--nope"), (("--launcher", "ssh"), "--launcher", "ssh"), (("-np", "0"), "-np", "0"),
                            (("-N", "two"), "-N", "two"), (("--device", "gpu"), "--device"),
                            (("--hosts", "nodes[1-"), "--hosts", "nodes[1-"), (("a", "b"), "b")):
            with self.subTest(args):
                r = tt.run(CAMPAIGN, "--build", self.build, plan, *args, env=self.env)
                self.assert_usage_error(r, *says)
        self.assert_rc(tt.run(CAMPAIGN, "--build", self.tmp / "none", plan, env=self.env), 3)
        self.assert_rc(tt.run(CAMPAIGN, "--build", self.build, self.tmp / "none.toml", env=self.env), 3)

    def test_variants(self):
        plan = self.plan('[[step]]\nid = "T1"\nexecutable = "one_perf"\nargs = ["-n", "5"]\nranks = 1\n'
                         '[step.host]\nargs = ["small"]\n[step.cuda]\nargs = ["large"]\nranks = 8\n')
        r = self.campaign(plan, "--list")
        self.assert_rc(r, 0)
        self.assert_says(r, "-n 5 small --device host")
        r = tt.run(CAMPAIGN, "--build", self.build, "--device", "cuda", "--launcher", "mpirun", "--list", plan, env=self.env)
        self.assert_says(r, "-np 8", "-n 5 large --device cuda")

    def test_shipped_plans_are_valid(self):
        for path in sorted((tt.ROOT / "scripts/plans").glob("*.toml")):
            names = set(line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("executable"))
            for name in names:
                self.script(self.build / name, "#!/bin/sh\n")
            for device in ("host", "cuda"):
                with self.subTest(f"{path.name} {device}"):
                    r = tt.run(CAMPAIGN, "--build", self.build, "--device", device, "-N", "8", "--list", path, env=self.env)
                    self.assert_rc(r, 0)
                    self.assertEqual(len([line for line in r.lines if line.startswith("T")]),
                                     path.read_text().splitlines().count("[[step]]"))

    def test_quick_is_the_default_and_lists_only_what_is_built(self):
        self.script(self.build / "gemm_perf", "#!/bin/sh\n")
        r = tt.run(CAMPAIGN, "--build", self.build, "--list", env=self.env, cwd=self.tmp)
        self.assert_rc(r, 0)
        self.assertEqual([line.split()[0] for line in r.lines if line.startswith("T")], ["T2"])
        self.assertNotIn("all_reduce", r.out)


class Launching(Case):
    """mpirun and srun replaced by a stub that prints its arguments and starts nothing but the program, once."""

    def setUp(self):
        super().setUp()
        self.fake = self.tmp / "fake"
        self.fake.mkdir()
        for name in ("mpirun", "srun"):
            self.script(self.fake / name, f'#!/bin/sh\necho "$0 $*" >> {self.tmp}/calls\n'
                        'case "$1" in --version) echo "mpirun (Open MPI) 4.1.4"; exit;; esac\n'
                        f'while [ $# -gt 0 ]; do case "$1" in {self.build}/*) exec "$@";; esac; shift; done\n')
        self.env["PATH"] = f"{self.fake}:{os.environ['PATH']}"

    def call(self, *args, env=None):
        r = tt.run(CAMPAIGN, "--build", self.build, "--output", self.tmp / "out", *args, env={**self.env, **(env or {})})
        self.assert_rc(r, 0)
        return (self.tmp / "calls").read_text().splitlines()[-1]

    def test_host_lists(self):  # C09
        plan = self.steps(("T4", "one_perf", ["row=a", "write"], 'ranks = "auto"'))
        call = self.call("--hosts", "nodes[006,011]", "-N", "4", plan)
        self.assertIn("-np 8 ", call)
        self.assertIn("-H nodes006:4,nodes011:4 ", call)
        self.assertIn("-N 4 ", call)

    def test_srun_inside_a_job(self):
        plan = self.steps(("T4", "one_perf", ["row=a", "write"], 'ranks = "auto"'))
        call = self.call(plan, env={"SLURM_JOB_ID": 7, "SLURM_JOB_NUM_NODES": 2, "SLURM_JOB_NODELIST": "gpu[08-09]"})
        for word in ("srun --mpi=pmix --kill-on-bad-exit=1", " -n4 ", " -N2 ", " --ntasks-per-node=2 ", "gpu08,gpu09"):
            self.assertIn(word, call)

    def test_one_rank_uses_one_host_and_nodes_uses_all(self):
        plan = self.steps(("T1", "one_perf", ["row=a", "write"], "ranks = 1"))
        call = self.call("--hosts", "n[1-3]", plan)
        self.assertIn("-np 1 ", call)
        self.assertIn("-H n1:1 ", call)
        self.drop_output()
        plan = self.steps(("T1", "one_perf", ["row=a", "write"], 'ranks = "nodes"'))
        call = self.call("--hosts", "n[1-3]", plan)
        self.assertIn("-np 3 ", call)
        self.assertIn("-H n1:1,n2:1,n3:1 ", call)

    def test_env_goes_along(self):
        plan = self.steps(("T4", "one_perf", ["row=a", "write"], 'env = { NCCL_ALGO = "Ring" }'))
        call = self.call("--hosts", "n[1-2]", plan, env={"NCCL_DEBUG": "WARN", "UNRELATED": "x"})
        self.assertIn("-x NCCL_ALGO", call)
        self.assertIn("-x NCCL_DEBUG", call)
        self.assertNotIn("UNRELATED", call)

    def test_host_list_forms(self):
        for text, names in (("a", "a"), ("a,b", "a b"), ("n[1-3]", "n1 n2 n3"), ("n[08-10]", "n08 n09 n10"),
                            ("n[006,011]", "n006 n011"), ("r[1-2]n[01,3-4]x", "r1n01x r1n3x r1n4x r2n01x r2n3x r2n4x"),
                            ("n[1-2],m7", "n1 n2 m7"), ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2")):
            self.assertEqual(" ".join(h.name for h in hostlist.parse(text)), names)
        self.assertEqual([h.slots for h in hostlist.parse("n[1-2]:8,m")], [8, 8, None])
        for text in ("", ",", "a,", "nodes[1-", "nodes]1[", "n[", "n[]", "n[1-2", "n[a-b]", "n[3-1]", "n[1,,2]", "n[[1]]", "a:0",
                     "a:x", "a b", "n[1-99999999]", "a,a", "-oProxyCommand=x", "n[1-2]:"):
            with self.subTest(text):
                self.assertRaises(hostlist.HostListError, hostlist.parse, text)


class Devices(unittest.TestCase):
    UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-cc33"]

    def count(self, visible=None, uuids=None):
        env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        return devices.count_gpus(env, lambda: (self.UUIDS if uuids is None else uuids, "made")).count

    def test_visible_devices(self):
        for visible, count in ((None, 3), ("", 0), ("0", 1), ("2,0", 2), ("0,7,1", 1), ("-1", 0), ("1,1", 0), ("NoDevFiles", 0),
                               ("GPU-aa", 1), ("GPU-a", 0), ("GPU-deadbeef", 0), ("GPU-aa11,GPU-cc", 2), ("MIG-1", 1), (" 0, 1", 2)):
            with self.subTest(visible):
                self.assertEqual(self.count(visible), count)
        self.assertEqual(self.count("0,1", []), 0)
        self.assertEqual(self.count("MIG-1", []), 0)


class Real(Case):
    """With the executables of the build."""

    def setUp(self):
        super().setUp()
        tt.require_exe("all_reduce_perf")
        tt.require_program("mpirun")

    def run_plan(self, *steps, args=(), timeout=150):
        text = ""
        for step_id, more, limit in steps:
            sweep = ["-b", "8", "-e", "64", "-f", "8", "-n", "5", *more]
            text += (f'[[step]]\nid = "{step_id}"\nexecutable = "all_reduce_perf"\nargs = {json.dumps(sweep)}\n'
                     f"time_limit_s = {limit * tt.TIME_SCALE}\nranks = 2\n")
        return tt.run(CAMPAIGN, "--build", tt.BUILD, "--device", "host", "--output", self.tmp / "out", self.plan(text), *args,
                      timeout=timeout)

    def test_a_hang_ends_at_the_limit_with_the_good_steps_figures(self):  # C20
        r = self.run_plan(("T4", [], 60), ("T5", ["--inject", "hang:rank=1"], 5))
        self.assert_rc(r, 5)
        self.assertEqual(r.leftovers, {})
        sheet = self.sheet()
        self.assertEqual(self.verdicts(sheet), [("T4", "PASS"), ("T5", "TIMEOUT")])
        self.assertTrue(sheet["steps"][0]["figures"])
        for name in ("sheet.txt", "sheet.md"):
            self.assertIn("INJECTED", (self.tmp / "out" / name).read_text())

    def test_the_tools_own_deadline_names_the_rank(self):
        r = self.run_plan(("T4", ["--inject", "hang:rank=1", "-T", "5"], 60))
        self.assert_rc(r, 5)
        step = self.sheet()["steps"][0]
        self.assertTrue(step["culprit"].startswith("rank 1 on "), step)
        self.assertEqual(step["injected"], "hang:rank=1")

    def test_wrong_data_outweighs_all(self):
        r = self.run_plan(("T4", [], 60), args=("--inject", "corrupt:rank=1"))
        self.assert_rc(r, 4)
        step = self.sheet()["steps"][0]
        self.assertEqual((step["verdict"], step["injected"]), ("WRONG DATA", "corrupt:rank=1"))

    def test_a_killed_campaign_takes_its_ranks_along(self):
        plan = self.plan('[[step]]\nid = "T4"\nexecutable = "all_reduce_perf"\nargs = ["--inject", "hang:rank=1"]\n'
                         "time_limit_s = 100\nranks = 2\n")
        with tt.start(CAMPAIGN, "--build", tt.BUILD, "--device", "host", "--output", self.tmp / "out", plan) as running:
            running.until(lambda r: len(r.ranks("all_reduce_perf")) == 2)
            running.process.kill()
            running.process.wait()
            deadline = time.monotonic() + 15 * tt.TIME_SCALE
            while running.processes() and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertEqual(running.processes(), {})
        tt.record(self.tmp / "out/sheet.json")

    def test_recorded_baseline_is_judged_by_tool_and_campaign(self):
        self.assert_rc(self.run_plan(("T4", [], 60), args=("--record-baseline", self.tmp / "b.json")), 0)
        self.drop_output()
        document = tt.record(self.tmp / "b.json")
        for entry in document["entries"]:
            entry["value"] *= 1000 if entry["direction"] == "higher" else 0.001
        (self.tmp / "b.json").write_text(json.dumps(document))
        self.assert_rc(self.run_plan(("T4", [], 60), args=("--baseline", self.tmp / "b.json")), 1)
        self.drop_output()
        self.assert_rc(self.run_plan(("T4", ["--baseline", str(self.tmp / "b.json")], 60)), 1)


class Installed(Case):
    def test_from_an_installation(self):
        """The layout of make install, without building anything."""
        prefix = self.tmp / "prefix"
        (prefix / "bin").mkdir(parents=True)
        share = prefix / "share/train-tests"
        shutil.copy(CAMPAIGN, prefix / "bin")
        shutil.copytree(tt.ROOT / "scripts/campaign_lib", share / "campaign_lib", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(tt.ROOT / "scripts/plans", share / "plans")
        self.script(prefix / "bin/gemm_perf", STUB.replace("{python}", sys.executable))
        r = tt.run(prefix / "bin/campaign", "--list", env=self.env, cwd=self.tmp)
        self.assert_rc(r, 0)
        self.assert_says(r, f"{prefix}/bin/gemm_perf", "T2")


if __name__ == "__main__":
    unittest.main()
