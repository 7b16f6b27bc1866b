"""What the records say about the machines: hosts with their devices, and software versions."""


def collect(records):
    """{"hosts": [{"names": [...], "devices": "8 x NVIDIA H200"}], "versions": {name: [values]}}: hosts that look alike
    stand together, a version that differs between records is listed with all its values."""
    devices, versions = {}, {}
    for record in records:
        for rank in record.ranks:
            device = rank.get("device") if isinstance(rank.get("device"), dict) else {}
            mark = device.get("uuid") or (device.get("kind"), device.get("name"))
            devices.setdefault(str(rank.get("host", "?")), {})[mark] = device.get("name") or device.get("kind") or "unknown device"
        for name, value in record.versions.items():
            if isinstance(value, str) and value not in versions.setdefault(name, []):
                versions[name].append(value)
    groups = {}
    for host, found in devices.items():
        counted = {}
        for name in found.values():
            counted[name] = counted.get(name, 0) + 1
        groups.setdefault(" + ".join(f"{n} x {name}" for name, n in sorted(counted.items())), []).append(host)
    return {"hosts": [{"names": sorted(names), "devices": what} for what, names in groups.items()], "versions": versions}
