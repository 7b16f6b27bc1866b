// Every check that node_check knows: its id, what it is, its unit, and how nodes are compared by it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tt::node {

enum class Compare {
  no,      // differs between healthy nodes by nature (names, serial numbers, temperatures)
  exact,   // all nodes alike
  within,  // numbers alike within 2 % (memory: firmware takes a little more here and there)
};

struct CatalogueEntry {
  std::string_view id;
  std::string_view what;  // for people
  std::string_view unit;  // of the value, "" for none
  Compare compare;
  bool bom;  // part of the bill of materials
};

/// In the order of printing.
std::span<const CatalogueEntry> catalogue();
/// std::logic_error for an id that is not there.
const CatalogueEntry& catalogue_entry(std::string_view id);
/// Null for an id that is not there.
const CatalogueEntry* find_entry(std::string_view id);
/// The id most like a mistyped one, for messages (smallest edit distance).
std::string_view nearest_id(std::string_view id);

}  // namespace tt::node
