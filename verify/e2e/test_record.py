"""Records, figures over ranks, gates and Prometheus files of the real executables (cases C04-C07, C13, C14, C18, C23)."""
import copy
import json
import re
import unittest

import schema
import tt

SCHEMA = json.loads((tt.ROOT / "docs" / "record.schema.json").read_text())


def strict(path):
    """Reads a record with a parser that refuses NaN and Infinity, and validates it."""
    def refuse(word):
        raise AssertionError(f"{path}: bare {word}")
    document = json.loads(path.read_text(), parse_constant=refuse)
    wrong = schema.errors(document, SCHEMA)
    if wrong:
        raise AssertionError(f"{path}: " + "\n".join(wrong[:10]))
    return document


def median(row, metric):
    return row["metrics"][metric]["median"]


class Schema(tt.TestCase):
    def test_a_document_off_the_schema_is_found(self):
        tt.require_exe("coll_perf")
        out = self.tmp / "o.json"
        self.assert_rc(tt.run("all_reduce_perf", "-b", "8", "-e", "8", "-n", "1", "-J", out), 0)
        good = strict(out)
        for change in (lambda d: d.pop("verdict"), lambda d: d.update(verdict="fine"), lambda d: d.update(exit_code=1),
                       lambda d: d.update(extra=1), lambda d: d["rows"][0].pop("key"),
                       lambda d: d["rows"][0]["metrics"]["time_us"].update(median="5"),
                       lambda d: d["rows"][0]["verification"].update(checked=True), lambda d: d.update(start="yesterday")):
            bad = copy.deepcopy(good)
            change(bad)
            self.assertTrue(schema.errors(bad, SCHEMA))


class Records(tt.TestCase):
    def setUp(self):
        super().setUp()
        tt.require_exe("coll_perf")

    def leftovers(self):
        return sorted(p.name for p in self.tmp.iterdir() if p.name.endswith(".tmp"))

    def test_four_ranks_sweep_is_valid_and_complete(self):
        out = self.tmp / "o.json"
        self.assert_rc(tt.run("all_reduce_perf", "-b", "8", "-e", "64K", "-f", "8", "-n", "5", "-J", out, ranks=4), 0)
        d = strict(out)
        self.assertEqual(d["verdict"], "pass")
        self.assertEqual(d["world"]["ranks"], 4)
        self.assertEqual([r["rank"] for r in d["ranks"]], [0, 1, 2, 3])
        self.assertEqual([r["local_rank"] for r in d["ranks"]], [0, 1, 2, 3])
        keys = [row["key"] for row in d["rows"]]
        self.assertEqual(len(keys), len(set(keys)))
        for row in d["rows"]:
            v = row["verification"]
            self.assertEqual(v["checked"], v["total"])
            self.assertEqual(v["total"], 4 * 5 * row["params"]["iterations_per_sample"])
            self.assertEqual([r["rank"] for r in row["ranks"]], [0, 1, 2, 3])
            self.assertLessEqual(row["start_s"], row["end_s"])
        self.assertEqual(self.leftovers(), [])

    def test_c04_a_dead_rank_leaves_a_valid_record_and_the_same_code(self):
        out = self.tmp / "o.json"
        args = ("all_reduce_perf", "-b", "8", "-e", "64", "--inject", "die:rank=1")
        with_file, without = tt.run(*args, "-J", out, ranks=2), tt.run(*args, ranks=2)
        self.assertEqual(with_file.rc, without.rc)
        self.assertNotEqual(with_file.rc, 0)
        d = strict(out)
        self.assertEqual((d["verdict"], d["exit_code"]), ("error", 3))
        self.assertIn("rank 1", d["reason"])
        self.assertEqual(d["injection"], "die:rank=1")
        self.assertEqual(self.leftovers(), [])

    def test_c04_no_gpu_is_the_same_code_with_and_without_a_record(self):
        if tt.gpus():
            self.skipTest("this machine has a GPU")
        out = self.tmp / "o.json"
        args = ("all_reduce_perf", "-b", "8", "-e", "8", "--device", "cuda")
        self.assert_rc(tt.run(*args), 3)
        self.assert_rc(tt.run(*args, "-J", out), 3)
        d = strict(out)
        self.assertEqual(d["verdict"], "error")
        self.assertRegex(d["reason"], "(?i)cuda")
        self.assertEqual(self.leftovers(), [])

    def test_c05_one_sample_has_no_deviation_and_nothing_is_nan(self):
        out, prom = self.tmp / "o.json", self.tmp / "o.prom"
        r = tt.run("all_reduce_perf", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "-J", out, "--prom", prom)
        self.assert_rc(r, 0)
        for row in strict(out)["rows"]:
            s = row["metrics"]["time_us"]
            self.assertEqual(s["n"], 1)
            self.assertEqual({s["min"], s["median"], s["mean"], s["max"], s["p99"]}, {s["min"]})
            self.assertIsNone(s["cv"])
        for text in (r.out, prom.read_text()):
            self.assertNotRegex(text, r"(?i)\b(nan|inf|infinity)\b")

    def test_c06_one_rank_has_no_bus_bandwidth(self):
        out = self.tmp / "o.json"
        self.assert_rc(tt.run("alltoall_perf", "-b", "64K", "-e", "64K", "-J", out, ranks=1), 0)
        for row in strict(out)["rows"]:
            self.assertIsNone(median(row, "busbw_GBps"))
            self.assertIsNone(row["slowest"])

    def test_c07_rates_follow_from_size_and_time(self):
        for tool, factor in (("all_reduce_perf", 1.5), ("all_gather_perf", 0.75), ("alltoall_perf", 0.75)):
            with self.subTest(tool):
                out = self.tmp / f"{tool}.json"
                self.assert_rc(tt.run(tool, "-b", "1M", "-e", "1M", "-n", "3", "-J", out, ranks=4), 0)
                rows = strict(out)["rows"]
                self.assertTrue(rows)
                for row in rows:
                    self.assertAlmostEqual(median(row, "algbw_GBps") / (row["size"] / median(row, "time_us") / 1000), 1, 6)
                    self.assertAlmostEqual(median(row, "busbw_GBps") / median(row, "algbw_GBps"), factor, 6)
                    rate, time = row["metrics"]["algbw_GBps"], row["metrics"]["time_us"]
                    self.assertAlmostEqual(rate["max"] * time["min"] / (rate["median"] * time["median"]), 1, 6)

    def test_c13_a_corrupted_result_is_found_although_later_ones_are_right(self):
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", "-b", "8", "-e", "512", "-f", "8", "-n", "20", "--inject", "corrupt:rank=2", "-J", out, ranks=4)
        self.assert_rc(r, 4)
        d = strict(out)
        self.assertEqual((d["verdict"], d["exit_code"], d["culprit"]["rank"]), ("wrong", 4, 2))
        self.assertEqual({row["size"] for row in d["rows"]}, {8, 64, 512})
        bad = [row for row in d["rows"] if row["verification"]["wrong"]]
        self.assertTrue(bad)
        for row in bad:
            self.assertEqual(row["verdict"], "wrong")
            first = row["verification"]["first"]
            self.assertEqual(first["rank"], 2)
            self.assertNotEqual(first["expected"], first["got"])
            self.assertGreater(row["verification"]["checked"], 20)
        self.assertRegex(r.out, r"WRONG DATA: .*rank 2.*offset \d+: expected \S+, got \S+")
        self.assertIn("FAULT INJECTION: corrupt:rank=2", r.out)


class SlowRank(tt.TestCase):
    """--inject slow must make every executable name the rank, whoever waits for whom (C14)."""

    def check(self, ranks, tool, *args):
        tt.require_exe(tool if tool == "gemm_perf" else "coll_perf")
        out = self.tmp / "o.json"
        r = tt.run(tool, *args, "--inject", "slow:rank=1,factor=3", "-J", out, ranks=ranks)
        self.assert_rc(r, 0)
        d = strict(out)
        self.assertRegex(r.out, "slowest rank: rank 1 .*outlier")
        self.assertEqual(d["culprit"]["rank"], 1)
        for row in d["rows"]:
            self.assertGreater(len({f["time_us"] for f in row["ranks"]}), 1)
        named = [row["slowest"]["rank"] == 1 and row["slowest"]["outlier"] for row in d["rows"]]
        # Now and then two cores with four ranks hold another one up for longer still.
        self.assertGreater(sum(named), len(named) / 2, [row["slowest"] for row in d["rows"]])
        return d

    def test_collectives(self):
        for ranks in (2, 4):
            for tool in ("all_reduce_perf", "broadcast_perf", "reduce_perf"):
                with self.subTest(tool, ranks=ranks):
                    d = self.check(ranks, tool, "-b", "1K", "-e", "64K", "-f", "8")
                    for row in d["rows"]:
                        late = row["ranks"][1]["delay_us"]
                        self.assertGreater(late, max(f["delay_us"] for f in row["ranks"] if f["rank"] != 1))

    def test_independent_work(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.check(ranks, "gemm_perf", "--device", "host", "-b", "128", "-e", "256", "-f", "2", "-d", "fp32")


class Gates(tt.TestCase):
    def setUp(self):
        super().setUp()
        tt.require_exe("coll_perf")

    def run_with(self, document, *args):
        path, self.out = self.tmp / "baseline.json", self.tmp / "o.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return tt.run("all_reduce_perf", "-b", "8", "-e", "8", "-n", "3", "-J", self.out, "--baseline", path, *args, ranks=1)

    def entry(self, **fields):
        e = {"metric": "time_us", "value": 1, "direction": "lower", "origin": "measured"} | fields
        return {"baseline_version": 1, "sku": "test", "entries": [e]}

    def key(self):
        self.assert_rc(tt.run("all_reduce_perf", "-b", "8", "-e", "8", "-n", "1", "-J", self.tmp / "k.json", ranks=1), 0)
        return strict(self.tmp / "k.json")["rows"][0]["key"]

    def test_c18_a_key_that_no_row_has_fails(self):
        r = self.run_with(self.entry(key="all_reduce/of/last/year"))
        self.assert_rc(r, 1)
        self.assertRegex(r.out, "not measured.*all_reduce/of/last/year")
        d = strict(self.out)
        self.assertEqual(d["verdict"], "fail")
        self.assertIn("all_reduce/of/last/year", d["reason"])

    def test_c18_a_null_metric_fails(self):
        key = self.key()
        r = self.run_with(self.entry(key=key, metric="busbw_GBps", direction="higher"))
        self.assert_rc(r, 1)
        self.assertIn(f"not measured: busbw_GBps of {key}", r.out)

    def test_c18_a_broken_file_is_an_error_before_anything_is_measured(self):
        for text in ('{"baseline_version": 1, ', "", "[]"):
            r = self.run_with(text)
            self.assert_rc(r, 3)
            self.assertIn("baseline.json", r.out + r.err)
            self.assertEqual(strict(self.out)["rows"], [])

    def test_a_figure_beyond_its_gate_fails_and_one_within_passes(self):
        key = self.key()
        self.assert_rc(self.run_with(self.entry(key=key, value=1e-6)), 1)
        row = next(row for row in strict(self.out)["rows"] if row["key"] == key)
        self.assertEqual(row["verdict"], "fail")
        self.assertLess(row["baseline"]["ratio"], 0.9)
        self.assert_rc(self.run_with(self.entry(key=key, value=1e9)), 0)
        self.assertGreater(strict(self.out)["rows"][0]["baseline"]["ratio"], 1)


class Prometheus(tt.TestCase):
    """C23: one duplicate or one differing HELP breaks the scrape of a whole node."""

    LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\}) (\S+)$')

    def test_files_of_several_executables_in_one_folder(self):
        tt.require_exe("coll_perf")
        runs = [("all_reduce_perf", "-b", "8", "-e", "512", "-f", "8", "-n", "2", "-N", "2"), ("reduce_perf", "-b", "8", "-e", "64", "-f", "8", "-n", "2")]
        try:
            tt.require_exe("gemm_perf")
            runs.append(("gemm_perf", "--device", "host", "-b", "64", "-e", "128", "-f", "2", "-d", "fp32", "-n", "2"))
        except unittest.SkipTest:
            pass
        for tool, *args in runs:
            self.assert_rc(tt.run(tool, *args, "--prom", self.tmp / f"{tool}.prom", ranks=2), 0)
        seen, texts = set(), {}
        for path in self.tmp.glob("*.prom"):
            comments, order = set(), []
            for line in path.read_text().splitlines():
                if line.startswith("# "):
                    _, kind, name, text = line.split(" ", 3)
                    self.assertNotIn((kind, name), comments, path)
                    comments.add((kind, name))
                    self.assertEqual(texts.setdefault((kind, name), text), text)
                    continue
                match = self.LINE.match(line)
                self.assertTrue(match, line)
                self.assertIn(("TYPE", match[1]), comments)
                self.assertIn(("HELP", match[1]), comments)
                float(match[3])
                self.assertNotIn(match[1] + match[2], seen)
                seen.add(match[1] + match[2])
                if not order or order[-1] != match[1]:
                    self.assertNotIn(match[1], order, "samples of one name must stand together")
                    order.append(match[1])
        self.assertEqual(sum(name.startswith("tt_run_end_time_seconds{") for name in seen), len(runs))


if __name__ == "__main__":
    unittest.main()
