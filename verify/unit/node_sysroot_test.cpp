#include "common/error.h"
#include "src/node/sysroot.h"
#include "verify/unit/catch.h"
#include "verify/unit/node_files.h"

using namespace tt;
using namespace tt::node;
using tt::test::has;
using tt::test::Tree;

TEST_CASE("a file below a root is read, with or without a newline at its end") {
  const Tree tree;
  tree.put("proc/a", "12\n");
  tree.put("proc/b", "0x10de");
  tree.put("proc/empty", "");
  const Sysroot root(tree.root());
  CHECK(*root.text("/proc/a") == "12");
  CHECK(*root.integer("/proc/a") == 12);
  CHECK(*root.integer("/proc/b") == 0x10de);
  CHECK(*root.text("/proc/empty") == "");
  CHECK(has(root.integer("/proc/empty").why, {"/proc/empty", "not a whole number"}));
  CHECK(has(root.text("/proc/none").why, {"/proc/none", "No such file"}));
  CHECK(!root.live());
  CHECK(Sysroot().live());
}

TEST_CASE("what is no number stays unknown, with its text fit for a line") {
  for (const char* bad :
       {"", "-", "0x", "12a", " 12", "1.5", "9223372036854775808", "99999999999999999999999999"}) {
    INFO(bad);
    CHECK(!to_integer(bad));
  }
  CHECK(*to_integer("9223372036854775807") == INT64_MAX);
  CHECK(*to_integer("-3") == -3);
  CHECK(to_integer(std::string("\x01\xff\x1b[2J", 6)).why.find('\x1b') == std::string::npos);
  CHECK(printable(std::string(500, 'x'), 10) == "xxxxxxxxxx...");
}

TEST_CASE("binary garbage and folders are read without harm") {
  const Tree tree;
  std::string garbage;
  for (int i = 0; i < 70000; ++i) garbage += static_cast<char>(i * 37);
  tree.put("proc/cpuinfo", garbage);
  tree.put("dir/x", "1");
  const Sysroot root(tree.root());
  CHECK(root.text("/proc/cpuinfo")->size() <= garbage.size());
  CHECK(has(root.text("/dir").why, {"not a regular file"}));
  CHECK(!root.list("/dir/x"));
}

TEST_CASE("links are followed inside the tree and never out of it") {
  const Tree tree;
  tree.put("usr/lib/os-release", "ID=test");
  tree.link("etc/os-release", "../usr/lib/os-release");
  tree.link("abs", "/usr/lib/os-release");
  tree.link("up", "../../../../../../../../../../../etc/passwd");
  tree.link("loop", "loop");
  tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
  tree.put("sys/devices/pci0000:00/0000:00:03.0/net/eth0/mtu", "1500");
  const Sysroot root(tree.root() + "//");
  CHECK(*root.text("/etc/os-release") == "ID=test");
  CHECK(*root.text("/abs") == "ID=test");
  CHECK(!root.text("/up"));  // the tree has no /etc/passwd
  CHECK(has(root.text("/loop").why, {"too many links"}));
  CHECK(*root.integer("/sys/class/net/eth0/mtu") == 1500);
  CHECK(*root.resolve("/sys/class/net/eth0") == "/sys/devices/pci0000:00/0000:00:03.0/net/eth0");
  CHECK(*root.resolve("/sys/class/net/eth0/../..") == "/sys/devices/pci0000:00/0000:00:03.0");
}

TEST_CASE("names are listed with digits as numbers") {
  const Tree tree;
  for (const char* name : {"cpu10", "cpu2", "cpu1"}) tree.put(std::string("sys/") + name, "");
  CHECK(*Sysroot(tree.root()).list("/sys") == std::vector<std::string>{"cpu1", "cpu2", "cpu10"});
  CHECK(compare_natural("570.86.15", "570.124") < 0);
  CHECK(compare_natural("5.15.0-91-generic", "5.17") < 0);
  CHECK(compare_natural("6.8", "5.17") > 0);
  CHECK(compare_natural("007", "7") == 0);
  CHECK(compare_natural("570.86.15", "570") > 0);
  CHECK(compare_natural("unlimited", "65536") > 0);
  CHECK(compare_natural(std::string(400, '9'), std::string(401, '1')) < 0);
}

TEST_CASE("lists of numbers are counted") {
  CHECK(*count_list("0-3,8") == 5);
  CHECK(*count_list("0") == 1);
  for (const char* bad : {"", "-", "3-1", "0-", "a", "0-99999999999", "0-3;8"}) CHECK(!count_list(bad));
}

TEST_CASE("a root that is no folder is refused by name") {
  CHECK(has(test::message_of<EnvironmentError>([] { Sysroot("/nowhere/at/all"); }),
            {"--sysroot", "/nowhere/at/all"}));
}

TEST_CASE("what was read can be copied to a new tree, which reads the same") {
  const Tree tree, copy;
  tree.put("real/file", "text");
  tree.link("link", "real");
  tree.put("sys/devices/a/unread", "secret");
  tree.put("sys/devices/a/read", "1");
  tree.put("never/asked", "x");
  const Sysroot root(tree.root());
  (void)root.text("/link/file");
  (void)root.list("/sys/devices/a");
  (void)root.text("/sys/devices/a/read");
  root.copy_read(copy.root());
  const Sysroot again(copy.root());
  CHECK(*again.text("/link/file") == "text");
  CHECK(*again.list("/sys/devices/a") == *root.list("/sys/devices/a"));
  CHECK(*again.text("/sys/devices/a/unread") == "");
  CHECK(!again.exists("/never/asked"));
}
