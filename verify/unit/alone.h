// A group of one rank for tests of what needs a group.
#pragma once

#include "common/group.h"

namespace tt::test {

/// MPI as a world of one, for as long as the test binary runs.
const Group& alone();

}  // namespace tt::test
