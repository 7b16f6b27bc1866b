"""Runs one command with a time limit and leaves nothing of it behind."""

import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL_S = 0.05
LAST_WAIT_S = 5.0  # for processes that got SIGKILL; one in uninterruptible sleep may outlast it and is named


@dataclass
class Ended:
    """How a command came to its end."""
    status: int | None  # exit status, negative: ended by that signal; None: it could not be started
    seconds: float = 0.0
    timed_out: bool = False
    interrupted: bool = False
    left: tuple = ()  # names of processes that were still there after a normal end, and were killed
    stuck: tuple = ()  # pids that not even SIGKILL ended in time
    error: str = ""  # why it could not be started


class Interrupt:
    """Remembers SIGINT, SIGTERM and SIGHUP instead of dying of them, so that the sheets can be written."""

    def __init__(self):
        self.signal, self.count = None, 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number, _frame):
        self.signal, self.count = self.signal or signal.Signals(number).name, self.count + 1

    def __bool__(self):
        return self.count > 0


def adopt_orphans():
    """What a command leaves behind, in whatever session, becomes a child of this process and can so be found."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def run(command, environ, stdout_path, stderr_path, limit_s, interrupt, grace_s=4.0, kill_remote=None, cwd=None):
    """Runs `command` in a session of its own. At the limit, or on an interrupt, everything it started gets SIGTERM (so
    that a launcher ends its remote part and a tool writes its record), and what is left `grace_s` later SIGKILL.
    `kill_remote` ends what the launcher's own death would not (a Slurm step); called only after the grace."""
    start = time.monotonic()
    with open(stdout_path, "wb") as out, open(stderr_path, "wb") as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ, cwd=cwd,
                                       start_new_session=True, preexec_fn=_die_with_parent)
        except OSError as error:
            return Ended(None, error=f"{command[0]}: {error.strerror or error}")
    ended = Ended(None)
    while process.poll() is None:
        if interrupt or time.monotonic() - start >= limit_s:
            ended.interrupted, ended.timed_out = bool(interrupt), not interrupt
            _end(process, interrupt, grace_s, kill_remote)
            break
        time.sleep(POLL_S)
    ended.seconds = time.monotonic() - start
    if not (ended.timed_out or ended.interrupted):
        time.sleep(POLL_S)  # a launcher's helpers may need a moment to follow it
        ended.left = tuple(sorted(set(descendants().values())))
    ended.stuck = _kill_all(process, LAST_WAIT_S)
    ended.status = process.poll()
    reap(process.pid)
    return ended


def _end(process, interrupt, grace_s, kill_remote):
    """SIGTERM to the command and all that is in its group; then waits until the whole tree is gone, at most `grace_s`,
    shorter when the user interrupts a second time."""
    presses, deadline = interrupt.count, time.monotonic() + grace_s
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    told_all = False
    while time.monotonic() < deadline and interrupt.count <= max(presses, 1):
        process.poll()
        reap(process.pid)
        left = descendants()
        if not left:
            return
        if process.returncode is not None and not told_all:  # the leader has gone and left others: tell them too
            _signal(left, signal.SIGTERM)
            told_all = True
        time.sleep(POLL_S)
    if kill_remote:
        kill_remote()
    process.poll()


def _kill_all(process, wait_s):
    deadline = time.monotonic() + wait_s
    while left := descendants():
        process.poll()
        if time.monotonic() > deadline:
            return tuple(sorted(left))
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
        reap(process.pid)
    return ()


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def reap(leader):
    """Collects adopted children that have ended. Never the command itself: its status is subprocess's to read."""
    for pid, (parent, state, _) in _processes().items():
        if parent == os.getpid() and state == "Z" and pid != leader:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def descendants():
    """{pid: name} of the living processes below this one."""
    table, children = _processes(), {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, queue = {}, list(children.get(os.getpid(), []))
    while queue:
        pid = queue.pop()
        queue += children.get(pid, [])
        if table[pid][1] not in "ZX":
            found[pid] = table[pid][2]
    return found


def _processes():
    """{pid: (parent, state, name)} of all processes."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(") ")
        except OSError:
            continue  # ended meanwhile
        fields = tail.split()
        if len(fields) > 1:
            table[int(entry)] = (int(fields[1]), fields[0], head.partition(" (")[2])
    return table


def _die_with_parent():
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # should the campaign itself be killed


def _prctl(option, value):
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux
