"""node_check: recorded trees of healthy and of broken nodes, mixtures over ranks, expectations, and this machine itself."""
import json
import shutil
import unittest

import node_trees
import tt


def rows_of(record, host=None):
    """{check: row} of a record, of one host when there are several."""
    return {r["params"]["check"]: r for r in record["rows"] if host in (None, r["params"]["host"])}


class NodeCheck(tt.TestCase):
    def setUp(self):
        tt.require_exe("node_check")

    def tree(self, name, as_name=None):
        return node_trees.Tree(name).write(self.tmp / (as_name or name))

    def check(self, *args, **how):
        out = self.tmp / "out.json"
        result = tt.run("node_check", "-J", out, *args, **how)
        return result, tt.record(out)

    def check_tree(self, name, *args, **how):
        return self.check("--sysroot", self.tree(name), *args, **how)


class Trees(NodeCheck):
    """Every planted fault is found with the right remedy, and nothing else is."""

    def diagnose(self, name):
        tree = node_trees.Tree(name)
        result, record = self.check_tree(name)
        fails = [e for e in tree.expected if e[0] == "fail"]
        self.assert_rc(result, 1 if fails else 0)
        rows = rows_of(record)
        expected = {check for _, check, _ in fails}
        failed = {check for check, row in rows.items() if row["params"]["status"] == "fail"}
        self.assertEqual(failed, expected, f"{name}: the checks that fail\n{result}")
        for status, check, texts in tree.expected:
            row = rows[check]
            self.assertEqual(row["params"]["status"], status, f"{name}: {check}\n{result}")
            said = row["reason"] + "\n" + row["params"].get("remedy", "") + "\n" + row["params"]["value"]
            for text in texts:
                self.assertIn(text, said, f"{name}: {check}")
            if status == "fail":
                self.assertTrue(row["params"]["remedy"], f"{name}: {check} has no remedy")
        return rows

    def healthy(self, name, judged):
        rows = self.diagnose(name)
        passed = [c for c, r in rows.items() if r["params"]["status"] == "pass"]
        self.assertGreaterEqual(len(passed), judged, f"{name}: too little was judged: {passed}")
        unknown = [c for c, r in rows.items() if r["params"]["status"] == "unknown"]
        self.assertEqual(unknown, [], f"{name}: unknown")

    def test_cpu_only(self):
        self.healthy("cpu-only", 6)

    def test_hgx_h200(self):
        self.healthy("hgx-h200", 40)

    def test_hgx_b300(self):
        self.healthy("hgx-b300", 43)


def add_tests():
    def test_of(name):
        def test(self):
            self.diagnose(name)
        return test
    for name in node_trees.names():
        if name.startswith(("fault-", "fine-")):
            setattr(Trees, "test_" + name.replace("-", "_"), test_of(name))


add_tests()


class Mixtures(NodeCheck):
    """With %r in --sysroot every rank is a node of its own."""

    def mix(self, *names, args=()):
        for rank, name in enumerate(names):
            tree = self.tree(name, f"node/{rank}")
            (tree / "proc/sys/kernel/hostname").write_text(f"gpu{rank:02}\n")
        return self.check("--sysroot", self.tmp / "node" / "%r", *args, ranks=len(names))

    def test_the_odd_node_is_named(self):
        result, record = self.mix("hgx-h200", "hgx-h200", "fault-vbios", "hgx-h200")
        self.assert_rc(result, 1)
        failed = {(r["params"]["host"], r["params"]["check"]) for r in record["rows"] if r["verdict"] == "fail"}
        self.assertEqual(failed, {("gpu02", "gpu.vbios")}, str(result))

    def test_one_gpu_fewer_than_the_neighbours(self):
        """Nothing on the node itself is amiss: bus and driver agree on seven."""
        trees = ["hgx-h200"] * 4
        for rank, name in enumerate(trees):
            tree = node_trees.Tree(name)
            if rank == 1:
                tree.line("nvml gpus.7 = null")
                tree.line("remove /sys/bus/pci/devices/0000:df:00.0")
            (tree.write(self.tmp / f"node/{rank}") / "proc/sys/kernel/hostname").write_text(f"gpu{rank:02}\n")
        result, record = self.check("--sysroot", self.tmp / "node/%r", ranks=4)
        self.assert_rc(result, 1)
        row = rows_of(record, "gpu01")["gpu.count"]
        self.assertEqual((row["verdict"], row["params"]["value"], row["params"]["expected"]), ("fail", "7", "8 (majority)"))
        self.assertIn("3 of 4 nodes", row["reason"])
        self.assertEqual(rows_of(record, "gpu00")["gpu.count"]["verdict"], "pass")
        self.assert_says(result, "gpu01", "FAIL")

    def test_four_alike_nodes_pass_and_share_lines(self):
        result, record = self.mix(*["hgx-h200"] * 4)
        self.assert_rc(result, 0)
        self.assertEqual(rows_of(record, "gpu03")["gpu.count"]["verdict"], "pass")
        self.assertEqual(sum(" gpu.model " in line for line in result.out.splitlines()), 1, result.out)
        self.assert_says(result, "all 4")

    def test_two_nodes_that_differ_are_both_named(self):
        result, record = self.mix("cpu-only", "fault-microcode")
        self.assert_rc(result, 1)
        for host in ("gpu00", "gpu01"):
            self.assertEqual(rows_of(record, host)["cpu.model"]["verdict"], "fail", str(result))

    def test_one_name_for_two_nodes(self):
        for rank in (0, 1):
            self.tree("cpu-only", f"node/{rank}")
        result, record = self.check("--sysroot", self.tmp / "node/%r", ranks=2)
        self.assert_rc(result, 1)
        self.assert_says(result, "ranks 0, 1 all have the name cpu01")
        keys = [r["key"] for r in record["rows"]]
        self.assertEqual(len(keys), len(set(keys)))

    def test_a_missing_tree_ends_the_run_on_all_ranks(self):
        self.tree("cpu-only", "node/0")
        result, record = self.check("--sysroot", self.tmp / "node/%r", ranks=2)
        self.assert_rc(result, 3)
        self.assert_says(result, "--sysroot", "node/1")
        self.assertEqual(record["rows"], [])


class Expectations(NodeCheck):
    def order(self, text, suffix="toml"):
        path = self.tmp / f"order.{suffix}"
        path.write_text(text)
        return path

    def test_eight_gpus_ordered_none_there(self):
        """C21, on this machine or a tree without GPUs."""
        result, record = self.check_tree("cpu-only", "--expect", self.order('{"gpu": {"count": 8}}', "json"))
        self.assert_rc(result, 1)
        self.assert_says(result, "0 of 8 GPUs", "remedy")
        self.assertEqual(rows_of(record)["gpu.count"]["verdict"], "fail")

    def test_without_an_order_or_neighbours_the_count_is_not_judged(self):
        """C21."""
        result, record = self.check_tree("cpu-only")
        self.assert_rc(result, 0)
        self.assertEqual(rows_of(record)["gpu.count"]["verdict"], "unknown")
        result, record = self.check_tree("hgx-h200")
        self.assertEqual(rows_of(record)["gpu.count"]["verdict"], "unknown")

    def test_what_was_ordered_is_there(self):
        order = {"gpu": {"count": 8, "model": "NVIDIA H200", "mig": "off"}, "rdma.rate": [400, 200],
                 "os.kernel": ">= 5.15", "limits.memlock": "unlimited", "memory.total": 2015}
        result, record = self.check_tree("hgx-h200", "--expect", self.order(json.dumps(order), "json"))
        self.assert_rc(result, 0)
        self.assertEqual(rows_of(record)["gpu.count"]["verdict"], "pass")

    def test_toml(self):
        result, record = self.check_tree("hgx-h200", "--expect", self.order('[gpu]\ncount = 8\nmodel = "NVIDIA B300"\n'))
        if "built without toml++" in result.err:
            self.skipTest("built without toml++")
        self.assert_rc(result, 1)
        rows = rows_of(record)
        self.assertEqual((rows["gpu.count"]["verdict"], rows["gpu.model"]["verdict"]), ("pass", "fail"))

    def test_broken_files(self):
        for text, said in [("", "order.json"), ("{", "not JSON"), ('{"gpu.cuont": 8}', "gpu.count"), ('{"gpu.count": true}', "true")]:
            result, record = self.check_tree("cpu-only", "--expect", self.order(text, "json"), ranks=2)
            self.assert_rc(result, 3)
            self.assert_says(result, "order.json", said)
            self.assertEqual(record["rows"], [])
            shutil.rmtree(self.tmp / "cpu-only")
        result, _ = self.check_tree("cpu-only", "--expect", "/nowhere/order.toml")
        self.assert_rc(result, 3)
        self.assert_says(result, "/nowhere/order.toml", "No such file")

    def test_broken_nvml_file(self):
        tree = self.tree("hgx-h200")
        (tree / "live/nvml.json").write_text('{"gpus": [{"pcie_width": "16"}]}')
        result, _ = self.check("--sysroot", tree)
        self.assert_rc(result, 3)
        self.assert_says(result, "nvml.json", "gpus[0].pcie_width")

    def test_bill_of_materials(self):
        bom = self.tmp / "bom.toml"
        result, _ = self.check_tree("hgx-h200", "--bom", "freeze", bom)
        self.assert_rc(result, 0)
        self.assertIn('gpu.model = "8 x NVIDIA H200"', bom.read_text())
        again, record = self.check("--sysroot", self.tmp / "hgx-h200", "--bom", "compare", bom)
        if "built without toml++" in again.err:
            self.skipTest("built without toml++")
        self.assert_rc(again, 0)
        self.assertEqual(rows_of(record)["gpu.vbios"]["verdict"], "pass")
        changed, record = self.check_tree("fault-vbios", "--bom", "compare", bom)
        self.assert_rc(changed, 1)
        self.assertEqual(rows_of(record)["gpu.vbios"]["verdict"], "fail")
        self.assertEqual([n for n in tt.files_in(self.tmp) if "bom" in n], ["bom.toml"])

    def test_bad_options(self):
        self.assert_usage_error(tt.run("node_check", "--bom", "melt", "x"), "--bom", "freeze FILE")
        result = tt.run("node_check", "--sysroot", "/nowhere/at/all")
        self.assert_rc(result, 3)
        self.assert_says(result, "--sysroot", "/nowhere/at/all")


class ThisMachine(NodeCheck):
    def test_here(self):
        """On any machine: real values, nothing passes unread, unknown ones say why."""
        result, record = self.check(ranks=2)
        self.assertIn(result.rc, (0, 1), str(result))
        rows = rows_of(record)
        self.assertGreater(float(rows["memory.total"]["params"]["value"]), 0)
        self.assertTrue(rows["os.kernel"]["params"]["value"])
        self.assertGreaterEqual(sum(r["verdict"] == "pass" for r in rows.values()), 2, str(result))
        for check, row in rows.items():
            if row["params"]["status"] == "unknown":
                self.assertTrue(row["reason"], check)
        # two ranks on one host are one node
        self.assertEqual(len({r["params"]["host"] for r in record["rows"]}), 1)
        if tt.gpus() == 0:
            self.assert_rc(result, 0)
            self.assertEqual(rows["gpu.count"]["verdict"], "unknown")

    def test_recorded_and_read_again(self):
        first, record = self.check("--record", self.tmp / "trees")
        host = next(iter(tt.files_in(self.tmp / "trees")))
        again, record2 = self.check("--sysroot", self.tmp / "trees" / host)
        self.assertEqual(first.rc, again.rc, str(again))
        volatile = {"memory.available", "limits.nproc", "gpu.temperature", "gpu.throttle"}
        values = lambda r: {c: (row["params"]["value"], row["verdict"]) for c, row in rows_of(r).items() if c not in volatile}
        self.assertEqual(values(record), values(record2))

    def test_list(self):
        result = tt.run("node_check", "--list")
        self.assert_rc(result, 0)
        self.assertIn("node/gpu.count", result.out.split())


if __name__ == "__main__":
    unittest.main()
