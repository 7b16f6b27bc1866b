// A folder of small files for tests, gone when the test is.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tt::test {

class Tree {
 public:
  Tree() {
    char name[] = "/tmp/tt-node-XXXXXX";
    if (!mkdtemp(name)) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void put(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << content;
  }
  void link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::create_symlink(target, root_ / path);
  }
  std::string root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace tt::test
