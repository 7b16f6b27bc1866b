// The small models with known results in verify/fixtures.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/llm/safetensors.h"
#include "src/llm/samples.h"
#include "verify/unit/node_files.h"
#include "verify/unit/safetensors_bytes.h"

namespace tt::test {

/// One folder of verify/fixtures.
struct KnownModel {
  explicit KnownModel(const std::string& name)
      : folder("verify/fixtures/" + name), expected(folder + "/expected.safetensors") {
    std::ifstream(folder + "/expected.json") >> facts;
  }
  std::string model() const { return folder + "/model"; }
  std::string adapter() const { return folder + "/adapter"; }
  std::string folder;
  SafetensorsFile expected;
  nlohmann::json facts;
};

/// Its tokens.
class KnownSamples final : public SampleSource {
 public:
  explicit KnownSamples(const KnownModel& known)
      : tokens_(known.expected.integers("tokens")), width_(known.expected.at("tokens").shape.back()) {}
  int64_t samples() const override { return static_cast<int64_t>(tokens_.size()) / width_; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override {
    for (int64_t s = 0; s + 1 < width_; ++s) {
      inputs[static_cast<size_t>(s)] = static_cast<int32_t>(tokens_.at(static_cast<size_t>(i * width_ + s)));
      targets[static_cast<size_t>(s)] =
          static_cast<int32_t>(tokens_.at(static_cast<size_t>(i * width_ + s + 1)));
    }
  }

 private:
  std::vector<int64_t> tokens_;
  int64_t width_;
};

/// A copy of a folder, to be damaged; gone when the test is.
class Copied {
 public:
  explicit Copied(const std::string& from) {
    std::filesystem::copy(from, tree_.root(), std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::recursive_directory_iterator(tree_.root()))
      std::filesystem::permissions(file.path(), std::filesystem::perms::owner_all);
  }
  std::string dir() const { return tree_.root(); }
  std::string path(const std::string& name) const { return tree_.root() + "/" + name; }
  std::string text(const std::string& name) const { return read_text_file(path(name)); }
  void put(const std::string& name, const std::string& text) const { tree_.put(name, text); }
  /// Merges these fields into a JSON file; a null stays as null.
  void change(const std::string& name, const nlohmann::ordered_json& fields) const {
    auto document = nlohmann::ordered_json::parse(text(name));
    for (const auto& [key, value] : fields.items()) document[key] = value;
    put(name, document.dump());
  }

 private:
  Tree tree_;
};

/// As if the disk were full after so many bytes of a file, until it goes.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

/// What is in a folder, sorted.
inline std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A safetensors file taken apart, to be put together changed.
struct Loose {
  struct Tensor {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::vector<Tensor> tensors;
  explicit Loose(const std::string& path) {
    const SafetensorsFile file(path);
    for (const TensorInfo& t : file.tensors())
      tensors.push_back({t.name, t.dtype, t.shape, std::string(file.bytes(t))});
  }
  Tensor& at(const std::string& name) {
    for (Tensor& t : tensors)
      if (t.name == name) return t;
    throw std::out_of_range(name);
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
  }
  /// `tail`: spaces behind the header.
  std::string bytes(size_t tail = 0) const {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const Tensor& t : tensors) {
      header[t.name] = {{"dtype", t.dtype},
                        {"shape", t.shape},
                        {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
    return safetensors_bytes(header.dump() + std::string(tail, ' '), data);
  }
};

}  // namespace tt::test
