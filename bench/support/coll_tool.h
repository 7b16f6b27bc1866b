// coll_perf and its nccl-tests names: all_reduce_perf, all_gather_perf, ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/support/coll_options.h"
#include "bench/support/tool.h"

namespace tt {

class CollTool final : public Tool {
 public:
  /// `program`: argv[0]. "…/all_reduce_perf" measures all_reduce only; any other name takes --coll.
  explicit CollTool(const std::string& program);
  std::string name() const override { return name_; }
  std::string description() const override;
  void add_options(OptionSet& set) override;
  void check_options(const CommonOptions& common) override;
  std::vector<std::string> list(const CommonOptions& common) override;
  void run(Session& session, Device& device) override;

 private:
  std::string name_;
  std::optional<Collective> fixed_;
  CollOptions options_;
};

}  // namespace tt
