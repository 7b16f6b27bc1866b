#include <array>

#include "common/error.h"
#include "src/comm/comm.h"

namespace tt {
namespace {

struct NamedOp {
  ReduceOp op;
  const char* name;
};
constexpr std::array<NamedOp, 6> kOps{{{ReduceOp::sum, "sum"},
                                       {ReduceOp::prod, "prod"},
                                       {ReduceOp::max, "max"},
                                       {ReduceOp::min, "min"},
                                       {ReduceOp::avg, "avg"},
                                       {ReduceOp::mulsum, "mulsum"}}};

}  // namespace

const char* name_of(ReduceOp op) noexcept {
  for (const NamedOp& entry : kOps)
    if (entry.op == op) return entry.name;
  return "?";
}

ReduceOp parse_reduce_op(std::string_view option, std::string_view text) {
  std::string accepted;
  for (const NamedOp& entry : kOps) {
    if (text == entry.name) return entry.op;
    accepted += std::string(accepted.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError(std::string(option) + ": unknown reduction '" + std::string(text) +
                   "'; accepted: " + accepted);
}

std::vector<ReduceOp> all_reduce_ops() {
  std::vector<ReduceOp> ops;
  for (const NamedOp& entry : kOps) ops.push_back(entry.op);
  return ops;
}

}  // namespace tt
