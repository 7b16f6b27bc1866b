// What comes from calls on this machine, and from the folder live/ in a recorded tree.
#pragma once

#include <cstdint>
#include <string>

#include "src/node/sysroot.h"

namespace tt::node {

/// The kernel's view of its clock: does anybody steer it? (adjtimex; live/adjtimex.json {"synchronized":
/// true})
Reading<bool> clock_synchronized(const Sysroot& root);

/// The kernel's messages since start, as far as its buffer reaches (syslog(2); live/kernel.log). Unknown
/// without permission.
Text kernel_log(const Sysroot& root);

}  // namespace tt::node
