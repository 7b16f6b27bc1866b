// Is the clock steered?
#include "src/node/live.h"
#include "src/node/sources.h"

namespace tt::node {

void inspect_clock(const Sysroot& root, const Surroundings& around, Findings& out) {
  const auto steered = clock_synchronized(root);
  Finding& f =
      out.add("time.synchronized", steered ? Text::of(*steered ? "yes" : "no") : Text::unknown(steered.why));
  if (around.trains())
    judge(f, equals("yes",
                    "start chronyd, systemd-timesyncd or ptp4l; `chronyc tracking` or `timedatectl` tell why "
                    "it is not steered"));
}

}  // namespace tt::node
