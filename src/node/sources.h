// The sources of checks, one file each. Every function adds the findings of its part of the node, judged by
// the rules that hold without knowing what was ordered.
#pragma once

#include "src/node/finding.h"
#include "src/node/surroundings.h"
#include "src/node/sysroot.h"

namespace tt::node {

void inspect_os(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_cpu(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_memory(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_limits(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_clock(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_nics(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_rdma(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_gpus(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_driver(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_services(const Sysroot& root, const Surroundings& around, Findings& out);
void inspect_software(const Sysroot& root, const Surroundings& around, Findings& out);

}  // namespace tt::node
