"""Runs that die or get stuck: they end in time, with the right code, and say who is to blame."""
import os
import signal
import socket
import time
import unittest

import tt

# Long enough to be in the middle of it when a signal comes; -T is far shorter.
SOAK = ("-b", "8", "-e", "8", "--device", "host", "--duration", "100")
SMALL = ("-b", "8", "-e", "8", "--device", "host")


class Watchdog(tt.TestCase):
    def setUp(self):
        tt.require_exe("all_reduce_perf")
        self.out = self.tmp / "o.json"
        self.host = socket.gethostname()

    def soak(self, ranks, limit):
        return tt.start("all_reduce_perf", *SOAK, "-T", limit, "-J", self.out, ranks=ranks)

    def ended(self, result, code, verdict, *texts):
        """The end as it has to be: code, one line with all texts, a record that says the same, nothing left over."""
        self.assert_rc(result, code)
        self.blames(result, verdict, *texts)

    def blames(self, result, verdict, *texts):
        lines = [line for line in result.err.splitlines() if line.startswith(("timeout: ", "error: "))]
        self.assertEqual(len(lines), 1, result)
        for text in texts:
            self.assertIn(text, lines[0], result)
        record = tt.record(self.out)
        self.assertEqual(record["verdict"], verdict)
        self.assertIn(record["reason"], lines[0])
        self.assertEqual(tt.files_in(self.tmp), ["o.json"])
        self.assertEqual(result.leftovers, {}, result)

    def measuring(self, running):
        """Waits until it is in the middle of measuring: each rank's last beat is about that."""
        running.until(lambda r: "#       size" in r.text()[0], what="the head of the table")
        time.sleep(1.5 * tt.TIME_SCALE)

    def send(self, running, rank, number):
        self.measuring(running)
        os.kill(running.ranks("all_reduce_perf")[rank], number)


class Stuck(Watchdog):
    def test_injected_hang(self):
        for rank in (0, 1):
            with self.subTest(rank):
                r = tt.run("all_reduce_perf", *SMALL, "--inject", f"hang:rank={rank}", "-T", 10, "-J", self.out, ranks=2)
                self.ended(r, 5, "timeout", f"timeout: rank {rank} (host {self.host}, device host)", 'in phase "measure',
                           "doing own work", "the others wait")
                self.assertEqual(tt.record(self.out)["culprit"]["rank"], rank)
                self.assertLess(r.seconds, 15 * tt.TIME_SCALE)

    def test_hang_in_other_phases(self):
        for phase in ("init", "finish"):
            with self.subTest(phase):
                r = tt.run("all_reduce_perf", *SMALL, "--inject", f"hang:rank=1,phase={phase}", "-T", 6, "-J", self.out,
                           ranks=2)
                self.ended(r, 5, "timeout", f"rank 1 (host {self.host}", f'in phase "{phase}"')

    def test_alone(self):
        r = tt.run("all_reduce_perf", *SMALL, "--inject", "hang:rank=0", "-T", 4, "-J", self.out)
        self.ended(r, 5, "timeout", "rank 0", 'in phase "measure')

    def test_stopped_rank(self):
        for rank in (0, 2):
            with self.subTest(rank), self.soak(4, 10) as running:
                self.send(running, rank, signal.SIGSTOP)
                r = running.wait(40)
                self.ended(r, 5, "timeout", f"timeout: rank {rank} (host {self.host}, device host) silent for",
                           "all_reduce/float/sum/8", "the others wait")
                self.assertEqual(tt.record(self.out)["culprit"]["rank"], rank)

    def test_a_rank_that_goes_on_in_time_is_forgiven(self):
        command = ("-b", "8", "-e", "8", "--device", "host", "--duration", "8")
        with tt.start("all_reduce_perf", *command, "-T", 20, "-J", self.out, ranks=2) as running:
            self.send(running, 1, signal.SIGSTOP)
            stopped = running.ranks("all_reduce_perf")[1]
            time.sleep(4)  # silent for longer than the watchdogs' own limit, not than the phase's
            os.kill(stopped, signal.SIGCONT)
            self.assert_rc(running.wait(90), 0)
        self.assertEqual(tt.record(self.out)["exit_code"], 0)


class Dead(Watchdog):
    def test_killed_rank(self):
        for rank in (0, 3):
            with self.subTest(rank), self.soak(4, 60) as running:
                self.send(running, rank, signal.SIGKILL)
                before = time.monotonic()
                r = running.wait(40)
                self.assertNotEqual(r.rc, 0, r)
                self.assertFalse(r.timed_out, r)
                self.assertLess(time.monotonic() - before, 15 * tt.TIME_SCALE)
                self.blames(r, "error", f"error: rank {rank} (host {self.host}, device host) died", "all_reduce/float/sum/8")
                record = tt.record(self.out)
                self.assertEqual((record["exit_code"], record["culprit"]["rank"]), (3, rank))

    def test_injected_death_has_one_code_with_and_without_a_record(self):
        command = ("all_reduce_perf", *SMALL, "--inject", "die:rank=1")
        without = tt.run(*command, ranks=2)
        r = tt.run(*command, "-J", self.out, ranks=2)
        self.assertNotEqual(r.rc, 0, r)
        self.assertEqual(r.rc, without.rc, f"{without}\n{r}")
        self.blames(r, "error", f"rank 1 (host {self.host}, device host) died")

    def test_signal_to_the_launcher(self):
        with self.soak(2, 60) as running:
            self.measuring(running)
            os.kill(running.process.pid, signal.SIGTERM)
            r = running.wait(40)
        self.assertNotEqual(r.rc, 0, r)
        self.blames(r, "error", "ended by SIGTERM")

    def test_signal_to_a_lone_process(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number.name), self.soak(None, 60) as running:
                self.measuring(running)
                os.kill(running.process.pid, number)
                self.ended(running.wait(40), 3, "error", f"ended by {number.name}")


if __name__ == "__main__":
    unittest.main()
