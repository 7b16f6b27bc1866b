// What was ordered: --expect FILE. docs/node_check.md describes the file.
#pragma once

#include <string>
#include <vector>

#include "src/node/inventory.h"

namespace tt::node {

struct Expectation {
  std::string id;  // of the catalogue
  std::vector<std::string>
      choices;         // any of them is right; each a value or an operator and a value: ">= 570"
  std::string origin;  // the file, for messages
};

/// Reads a TOML file (or JSON, by its suffix .json). Tables nest to ids: `gpu.count = 8` or [gpu] count = 8.
/// A value is a text, a number, or a list of them. EnvironmentError naming file, key and value for a broken
/// file, an id that is not in the catalogue (with the nearest that is), another type, an empty list, no
/// expectation at all.
std::vector<Expectation> parse_expectations(const std::string& text, const std::string& file);
/// The file's text. EnvironmentError naming it when it cannot be read.
std::string expectation_text(const std::string& file);
std::vector<Expectation> parse_expectations_json(const std::string& text, const std::string& file);
std::vector<Expectation> parse_expectations_toml(const std::string& text, const std::string& file);

/// Does the value meet one choice? Operators >= <= > < != compare naturally (digits as numbers: "570.86" <
/// "570.124").
bool meets(const std::string& value, const std::string& choice);

/// Judges the node by them. A finding meets an expectation when every item does, or its whole text. What is
/// expected but is not there, or could not be read, fails: what was not seen is not accepted. An exact value
/// that is met overrules the finding's own rule (gpu.mig = "on" is then right); one with an operator does
/// not.
void apply_expectations(const std::vector<Expectation>& expectations, Node& node);

/// The bill of materials as an expectation file: every catalogue entry marked `bom` with the value that most
/// of the nodes have; what could not be read anywhere stands there as a comment.
std::string freeze_bom(const std::vector<Node>& nodes, const std::string& head);

}  // namespace tt::node
