"""Recorded trees for node_check --sysroot, unpacked from short descriptions in verify/e2e/trees/*.tree.

A description is read line by line:

    base NAME                        starts from another description
    /path = text                     a file (\\n for a line end, "\\" at the end of the line goes on in the next)
    /path -> target                  a symbolic link
    remove /path                     takes away a file, a link or a folder with all below it
    for X in a b c:                  the indented lines below, with $X replaced by each value and $# by its number
    cpus SOCKETS CORES THREADS MODEL…    /proc/cpuinfo and sysfs of that many sockets, cores per socket, threads per core
    acs ADDRESS CONTROL              a PCI bridge whose ACS control register holds CONTROL
    nvml KEY = JSON                  a value in live/nvml.json; gpus.3.name is one GPU's, gpus.*.name all GPUs'
    nvml gpus = N x JSON             N GPUs
    expect fail CHECK "text" …       what node_check must say: this check fails, with the texts in its reason or remedy
    expect unknown CHECK "text" …
    # comment
"""
import copy
import json
import shlex
from pathlib import Path

TREES = Path(__file__).resolve().parent / "trees"


class Link(str):
    """The target of a symbolic link."""


class Tree:
    def __init__(self, name):
        self.name, self.files, self.nvml, self.expected = name, {}, None, []
        self.read((TREES / f"{name}.tree").read_text())

    def read(self, text):
        lines = text.replace("\\\n", "").splitlines()
        while lines:
            line = lines.pop(0)
            if line.startswith("for "):
                body = []
                while lines and (lines[0].startswith(" ") or not lines[0].strip()):
                    body.append(lines.pop(0).strip())
                head, _, values = line.removesuffix(":").partition(" in ")
                name = head.removeprefix("for ").strip()
                for number, value in enumerate(values.split()):
                    for inner in body:
                        self.line(inner.replace("$" + name, value).replace("$#", str(number)))
            else:
                self.line(line)

    def line(self, line):
        line = line.strip()
        if not line or line.startswith("#"):
            return
        word, _, rest = line.partition(" ")
        if word == "base":
            self.__dict__.update(name=self.name, **{k: v for k, v in Tree(rest).__dict__.items() if k not in ("name", "expected")})
        elif word == "remove":
            self.files = {p: t for p, t in self.files.items() if p != rest and not p.startswith(rest + "/")}
        elif word == "cpus":
            self.cpus(*rest.split(" ", 3))
        elif word == "acs":
            self.acs(*rest.split())
        elif word == "nvml":
            self.set_nvml(*(part.strip() for part in rest.split("=", 1)))
        elif word == "expect":
            verdict, check, *texts = shlex.split(rest)
            self.expected.append((verdict, check, texts))
        elif " -> " in line:
            path, target = line.split(" -> ", 1)
            self.files[path] = Link(target)
        elif word.startswith("/") and (rest + " ").startswith("= "):
            self.files[word] = (rest[2:].replace("\\n", "\n") + "\n").encode()
        else:
            raise ValueError(f"{self.name}.tree: cannot read '{line}'")

    def cpus(self, sockets, cores, threads, model):
        sockets, cores, threads = int(sockets), int(cores), int(threads)
        count, info = sockets * cores * threads, ""
        for cpu in range(count):
            core = cpu % (sockets * cores)
            at = f"/sys/devices/system/cpu/cpu{cpu}"
            self.line(f"{at}/topology/physical_package_id = {core // cores}")
            self.line(f"{at}/topology/core_id = {core % cores}")
            self.line(f"{at}/cpufreq/cpuinfo_max_freq = 3800000")
            self.line(f"/sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor = performance")
            info += f"processor\t: {cpu}\nmodel name\t: {model}\nmicrocode\t: 0x2b000603\nflags\t\t: fpu vme sse2 avx512f\n\n"
        self.files["/proc/cpuinfo"] = info.encode()
        for name in ("online", "present"):
            self.line(f"/sys/devices/system/cpu/{name} = 0-{count - 1}")
        self.line("/sys/devices/system/cpu/intel_pstate/no_turbo = 0")
        for node in range(sockets):
            self.line(f"/sys/devices/system/node/node{node}/cpulist = {node * cores}-{node * cores + cores - 1}")
        self.line(f"/sys/devices/system/node/online = 0-{sockets - 1}" if sockets > 1 else "/sys/devices/system/node/online = 0")

    def acs(self, address, control):
        """Extended capabilities start at 0x100: advanced errors (0x0001), then ACS (0x000d) with its control word at +6."""
        config = bytearray(4096)
        config[0x100:0x104] = (0x148 << 20 | 1 << 16 | 0x0001).to_bytes(4, "little")
        config[0x148:0x14c] = (1 << 16 | 0x000d).to_bytes(4, "little")
        config[0x14c:0x150] = (int(control, 0) << 16 | 0x005f).to_bytes(4, "little")
        at = f"/sys/bus/pci/devices/{address}"
        self.line(f"{at}/vendor = 0x1000")
        self.line(f"{at}/device = 0xc030")
        self.line(f"{at}/class = 0x060400")
        self.files[f"{at}/config"] = bytes(config)

    def set_nvml(self, key, value):
        if self.nvml is None:
            self.nvml = {}
        number, times, rest = value.partition(" x ")
        if times and number.isdigit():
            self.nvml[key] = [json.loads(rest) for _ in range(int(number))]
            return
        at, *inner = [self.nvml], *key.split(".")
        for name in inner[:-1]:
            at = [e for a in at for e in (a if name == "*" else [a[int(name)]] if isinstance(a, list) else [a[name]])]
        for a in at:
            if isinstance(a, list):
                a[int(inner[-1])] = copy.deepcopy(json.loads(value))
                if a[int(inner[-1])] is None:
                    a.pop(int(inner[-1]))
            else:
                a[inner[-1]] = json.loads(value)

    def write(self, folder):
        """Unpacks into a folder and returns it."""
        files = dict(self.files)
        if self.nvml is not None:
            files["/live/nvml.json"] = json.dumps(self.nvml, indent=1).encode()
        for path, content in files.items():
            at = Path(folder) / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                at.symlink_to(content)
            else:
                at.write_bytes(content)
        return Path(folder)


def names():
    return sorted(p.stem for p in TREES.glob("*.tree"))
