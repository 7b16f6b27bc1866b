// What is measured. An engine supplies small functions; it never parses options, prints, reads a clock or
// exits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/row.h"
#include "common/stream.h"

namespace tt {

class Engine {
 public:
  virtual ~Engine() = default;

  /// Key, group, size, params and main_metric of the row this engine makes; the measurement fills in the
  /// rest.
  virtual Row describe() const = 0;

  /// Enqueues iteration i (0, 1, 2, ... without gaps; warm-up counts too).
  virtual void step(Stream& stream, int64_t i) = 0;

  /// How many consecutive iterations' results are held at once. The harness times chunks of at most this many
  /// iterations and verifies after each chunk, outside the timed part.
  virtual int64_t slots() const { return 1; }

  /// True when a step may follow on a used slot without prepare(), as it does not consume what the slot held.
  /// A soak then goes round the slots for about a second and verifies what is held at its end, rather than
  /// pausing after each round.
  virtual bool goes_round() const { return false; }

  /// Before a chunk: makes the results of iterations first .. first+count-1 wrong (poison), so that a step
  /// that writes nothing is found. Work may be enqueued; it is not timed.
  virtual void prepare(Stream& stream, int64_t first, int64_t count) = 0;

  /// After a chunk: verifies the results of these iterations. May synchronize the stream.
  virtual Check verify(Stream& stream, int64_t first, int64_t count) = 0;

  /// Fault injection: changes one element of iteration i's result so that verify() must find it.
  virtual void corrupt(Stream& stream, int64_t i) = 0;

  /// Rates that follow from one operation taking `seconds`.
  virtual std::vector<Rate> rates(double seconds) const = 0;

  /// Operations in one step (aggregated, or in a recorded graph); times and rates are per operation.
  virtual int64_t operations() const { return 1; }

  /// True when the ranks of the group work on one operation together: the time of an iteration is then the
  /// maximum over ranks, and arrival times tell who came late. False: every rank does its own copy of the
  /// work.
  virtual bool collective() const { return false; }
};

}  // namespace tt
