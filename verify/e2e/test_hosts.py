"""Runs over two hosts: network namespaces with a host name, address and sshd each, ranks started by mpirun over ssh."""
import unittest

import nodes
import tt

CAMPAIGN = tt.ROOT / "scripts/campaign"
MPIRUN = ("mpirun", "-np", "4", "-N", "2", "-H", "node1:2,node2:2", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1")


def places(record):
    """(rank, host, local rank, node) of every rank."""
    return [(r["rank"], r["host"], r["local_rank"], r["node"]) for r in record["ranks"]]


FOUR_ON_TWO = [(0, "node1", 0, 0), (1, "node1", 1, 0), (2, "node2", 0, 1), (3, "node2", 1, 1)]


class TwoHosts(nodes.TestCase):
    def test_ranks_hosts_and_local_ranks(self):
        tt.require_exe("all_reduce_perf")
        out = self.tmp / "o.json"
        r = self.on("node1", *MPIRUN, tt.exe("all_reduce_perf"), "--device", "host", "-b", "8", "-e", "1M", "-f", "8", "-n", "5",
                    "-T", "40", "-J", out)
        self.assert_rc(r, 0)
        record = tt.record(out)
        self.assertEqual(places(record), FOUR_ON_TWO)
        self.assertEqual((record["world"]["ranks"], record["world"]["nodes"]), (4, 2))
        self.assertEqual(len({rank["pid"] for rank in record["ranks"]} | {0}), 5)
        self.assertTrue(record["rows"])
        self.assertEqual([row["verification"]["wrong"] for row in record["rows"]], [0] * len(record["rows"]))
        # The header has a line per rank that names it, its host and its pid.
        header = [line for line in r.lines if line.startswith("#")]
        for rank in record["ranks"]:
            self.assertTrue(any(rank["host"] in line and str(rank["pid"]) in line.split() for line in header),
                            f"no header line for {rank}:\n{r}")

    def test_round_robin_ranks(self):
        tt.require_exe("all_reduce_perf")
        out = self.tmp / "o.json"
        r = self.on("node1", *MPIRUN, "--map-by", "node", tt.exe("all_reduce_perf"), "--device", "host", "-b", "8", "-e", "64",
                    "-f", "8", "-n", "3", "-T", "40", "-J", out)
        self.assert_rc(r, 0)
        self.assertEqual(places(tt.record(out)),
                         [(0, "node1", 0, 0), (1, "node2", 0, 1), (2, "node1", 1, 0), (3, "node2", 1, 1)])

    def test_wrong_data_on_the_other_host_is_placed(self):
        tt.require_exe("all_reduce_perf")
        out = self.tmp / "o.json"
        r = self.on("node1", *MPIRUN, tt.exe("all_reduce_perf"), "--device", "host", "-b", "1M", "-e", "1M", "-T", "40",
                    "--inject", "corrupt:rank=3", "-J", out)
        self.assert_rc(r, 4)
        wrong = [row["verification"]["first"] for row in tt.record(out)["rows"] if row["verification"]["wrong"]]
        self.assertEqual({first["rank"] for first in wrong}, {3})

    def test_a_hang_on_the_other_host_is_placed(self):
        tt.require_exe("all_reduce_perf")
        out = self.tmp / "o.json"
        r = self.on("node1", *MPIRUN, tt.exe("all_reduce_perf"), "--device", "host", "-b", "8", "-e", "8", "-T", "5",
                    "--inject", "hang:rank=2", "-J", out)
        self.assert_rc(r, 5)
        record = tt.record(out)
        self.assertEqual((record["verdict"], record["culprit"]["rank"], record["culprit"]["host"]), ("timeout", 2, "node2"))
        self.assertEqual(self.processes_on("node2", "all_reduce_perf"), [])

    def test_a_campaign_over_hosts(self):
        tt.require_exe("all_reduce_perf")
        plan = self.tmp / "plan.toml"
        plan.write_text('[[step]]\nid = "T4"\nexecutable = "all_reduce_perf"\nargs = ["-b", "8", "-e", "64K", "-f", "8"]\n'
                        "time_limit_s = 60\n")
        r = self.on("node1", CAMPAIGN, "--build", tt.BUILD, "--hosts", "node[1-2]", "--device", "host", "--output",
                    self.tmp / "out", plan)
        self.assert_rc(r, 0)
        self.assertEqual(places(tt.record(self.tmp / "out/T4-all_reduce_perf/record.json")), FOUR_ON_TWO)
        sheet = tt.record(self.tmp / "out/sheet.json")
        self.assertEqual(sheet["inventory"]["hosts"][0]["names"], ["node1", "node2"])

    def test_the_time_limit_reaches_the_other_host(self):
        plan = self.tmp / "plan.toml"
        plan.write_text('[[step]]\nid = "T4"\ncommand = ["sleep", "987654"]\nranks = 4\ntime_limit_s = 3\n')
        r = self.on("node1", CAMPAIGN, "--build", tt.BUILD, "--hosts", "node[1-2]", "--output", self.tmp / "out", plan)
        self.assert_rc(r, 5)
        for node in ("node1", "node2"):
            self.assertEqual(self.processes_on(node, "987654"), [])


if __name__ == "__main__":
    unittest.main()
