// Collectives over all ranks: bandwidth, latency and correctness. Linked to all_reduce_perf and so on, it is
// that operation.
#include "bench/support/coll_tool.h"

int main(int argc, char** argv) {
  tt::CollTool tool(argc > 0 ? argv[0] : "coll_perf");
  return tt::run_tool(argc, argv, tool);
}
