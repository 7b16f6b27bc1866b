"""How many GPUs this node has, and how that was found out."""

import ctypes
import os
import re
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpus:
    count: int
    how: str  # for the header: the source, and what CUDA_VISIBLE_DEVICES took away


def count_gpus(environ=os.environ, list_uuids=None):
    """The GPUs that a CUDA program started here would see. `list_uuids` (for tests) replaces the machine's own list;
    it returns (UUIDs in order, source)."""
    uuids, source = (list_uuids or _list_uuids)()
    how = f"{len(uuids)} GPU{'' if len(uuids) == 1 else 's'} ({source})"
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return Gpus(len(uuids), how)
    count = _visible(visible, uuids)
    return Gpus(count, f"{how}, {count} of them visible (CUDA_VISIBLE_DEVICES={visible!r})" if uuids else how)


def _visible(text, uuids):
    """CUDA's rule: the list counts up to its first entry that names no device; an entry is an ordinal or a UUID, which
    may be abbreviated as long as it is unambiguous. MIG UUIDs are taken at their word: the GPU list does not hold them."""
    seen = set()
    for entry in (part.strip() for part in text.split(",")):
        if entry.isascii() and entry.isdigit() and int(entry) < len(uuids):
            found = uuids[int(entry)]
        elif entry.startswith("MIG-") and uuids:
            found = entry
        else:
            matches = [uuid for uuid in uuids if entry.startswith("GPU-") and uuid.startswith(entry)]
            if len(matches) != 1:
                break
            found = matches[0]
        if found in seen:  # CUDA reports no device at all for a repeated entry
            return 0
        seen.add(found)
    return len(seen)


def _list_uuids():
    for lister in (_from_nvidia_smi, _from_nvml, _from_proc):
        uuids, source = lister()
        if uuids:
            return uuids, source
    return [], "none by nvidia-smi, NVML or /proc/driver/nvidia"


def _from_nvidia_smi():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [], ""
    return re.findall(r"^GPU \d+:.*\(UUID: (GPU-[^)]+)\)", done.stdout, re.MULTILINE), "nvidia-smi"


def _from_nvml():
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return [], ""
    except (OSError, AttributeError):
        return [], ""
    try:
        count = ctypes.c_uint(0)
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return [], ""
        uuids = []
        for index in range(count.value):
            handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            if (nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
                    and nvml.nvmlDeviceGetUUID(handle, text, len(text)) == 0):
                uuids.append(text.value.decode())
        return uuids, "NVML"
    except AttributeError:
        return [], ""
    finally:
        nvml.nvmlShutdown()


def _from_proc(folder="/proc/driver/nvidia/gpus"):
    uuids = []
    try:
        for name in sorted(os.listdir(folder)):
            with open(f"{folder}/{name}/information", encoding="utf-8", errors="replace") as file:
                match = re.search(r"^GPU UUID:\s*(GPU-\S+)", file.read(), re.MULTILINE)
            uuids.append(match[1] if match else name)
    except OSError:
        pass
    return uuids, "/proc/driver/nvidia"
