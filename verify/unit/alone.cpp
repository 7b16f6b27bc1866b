#include "verify/unit/alone.h"

#include <mpi.h>

#include <cstdlib>

namespace tt::test {

const Group& alone() {
  static Progress progress;
  static const Group* group = [] {
    int up = 0;
    MPI_Initialized(&up);
    if (!up) {
      int granted = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &granted);
      std::atexit([] {
        int down = 0;
        MPI_Finalized(&down);
        if (!down) MPI_Finalize();
      });
    }
    return new Group(MPI_COMM_SELF, progress);  // left to the end of the process, like MPI itself
  }();
  return *group;
}

}  // namespace tt::test
