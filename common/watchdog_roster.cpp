#include "common/watchdog_roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

namespace tt::watchdog {
namespace {

// Answers to the question before a verdict: beats of an overloaded host may be late. One rank that is silent
// among others that answer needs less patience than several.
constexpr double kGraceForOne = 1.5;
constexpr double kGraceForMore = 3.0;
constexpr size_t kNamed = 4;  // so many ranks are described in one line

auto how_far(const Standing& s) {
  return std::tuple(s.phase_number, s.iteration, static_cast<int>(s.activity));
}

std::string join(const std::vector<std::string>& parts, const char* between) {
  return fmt::format("{}", fmt::join(parts, between));
}

}  // namespace

std::vector<int> find_culprits(const std::vector<Standing>& standings) {
  std::vector<int> silent, least;
  for (const Standing& s : standings)
    if (s.silent) silent.push_back(s.rank);
  if (!silent.empty() || standings.empty()) return silent;
  const auto behind = std::min_element(standings.begin(), standings.end(),
                                       [](const auto& a, const auto& b) { return how_far(a) < how_far(b); });
  for (const Standing& s : standings)
    if (how_far(s) == how_far(*behind)) least.push_back(s.rank);
  return least;
}

std::string words_of(Activity activity) {
  switch (activity) {
    case Activity::own_work:
      return "doing own work";
    case Activity::in_step:
      return "in the step that is measured";
    case Activity::waiting:
      return "waiting for other ranks";
  }
  return "";
}

std::string signal_name(int number) {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "signal " + std::to_string(number);
  }
}

std::string name_of(int rank, const std::string& host, const std::string& device) {
  return device.empty() ? fmt::format("rank {} (host {})", rank, host)
                        : fmt::format("rank {} (host {}, device {})", rank, host, device);
}

std::string place_of(const Message& beat) {
  const std::string iteration = beat.iteration >= 0 ? fmt::format(", iteration {}", beat.iteration) : "";
  return fmt::format("in phase \"{}\"{}, {}", beat.text, iteration, words_of(beat.activity));
}

Roster::Roster(int ranks) : ranks_(static_cast<size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) at(r).rank = r;
}

void Roster::joined(int rank, const std::string& host, double now) {
  at(rank).joined = true;
  at(rank).host = host;
  at(rank).heard_at = now;
}

void Roster::heard(int rank, const Message& beat, double now) {
  State& state = at(rank);
  state.heard_at = now;
  state.beat = beat;
  if (!beat.more.empty()) state.device = beat.more;
}

void Roster::event(double now) {
  if (!first_event_) first_event_ = now;
}

void Roster::failed(int rank, ExitCode code, const std::string& reason, double now) {
  at(rank).failure = Failure{code, reason};
  event(now);
}

void Roster::signalled(int rank, int number, double now) {
  at(rank).signal = number;
  event(now);
}

void Roster::lost(int rank, double now) {
  State& state = at(rank);
  if (state.left || state.lost) return;
  state.lost = true;
  if (!state.failure) event(now);
}

void Roster::left(int rank) {
  at(rank).left = true;
}

bool Roster::take_ping() {
  return std::exchange(ping_, false);
}

bool Roster::overdue(double now) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const State& s) {
    return s.watched() && s.beat.limit_s > 0 && s.age(now) > s.beat.limit_s;
  });
}

bool Roster::everyone_spoke() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const State& s) { return !s.watched() || s.failure.has_value(); });
}

bool Roster::all_answered(double now) const {
  const auto unanswered = std::count_if(ranks_.begin(), ranks_.end(),
                                        [&](const State& s) { return s.watched() && s.heard_at <= *asked_; });
  if (unanswered == 0) return true;
  return now - *asked_ >= (unanswered == 1 ? kGraceForOne : kGraceForMore);
}

std::optional<Ending> Roster::decide(double now) {
  if (first_event_) {
    const bool failure =
        std::any_of(ranks_.begin(), ranks_.end(), [](const State& s) { return !!s.failure; });
    if (now - *first_event_ < (failure ? kFailureWindow : kLossWindow) && !everyone_spoke())
      return std::nullopt;
    return conclude();
  }
  if (!overdue(now)) {
    asked_.reset();
    return std::nullopt;
  }
  if (!asked_) {
    asked_ = now;
    ping_ = true;
    return std::nullopt;
  }
  if (!all_answered(now)) return std::nullopt;
  return time_out(now);
}

Ending Roster::conclude() const {
  Ending ending;
  ending.end.code = ExitCode::pass;
  std::vector<std::string> parts;
  for (std::string part : {losses(ending), failures(ending)})
    if (!part.empty()) parts.push_back(std::move(part));
  if (parts.empty()) {
    ending.cause = Cause::signal;
    ending.end.code = ExitCode::environment;
    parts.push_back(signals());
  }
  ending.end.reason = join(parts, "; ");
  return ending;
}

std::string Roster::losses(Ending& ending) const {
  std::vector<std::string> names;
  std::string place;
  for (const State& s : ranks_) {
    if (!s.lost || s.failure) continue;
    if (names.empty()) {
      ending.cause = Cause::loss;
      ending.end.rank = s.rank;
      ending.end.code = worst(ending.end.code, ExitCode::environment);
      place = place_of(s.beat);
    }
    if (names.size() < kNamed) names.push_back(s.name());
  }
  if (names.empty()) return {};
  return fmt::format("{} died, last seen {}", join(names, ", "), place);
}

std::string Roster::failures(Ending& ending) const {
  struct Group {
    std::string reason;
    std::vector<const State*> ranks;
  };
  std::vector<Group> groups;  // equal words once
  size_t members = 0;
  for (const State& s : ranks_) {
    members += s.joined && !s.left;
    if (!s.failure) continue;
    ending.end.code = worst(ending.end.code, s.failure->code);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Group& g) { return g.reason == s.failure->reason; });
    if (same != groups.end())
      same->ranks.push_back(&s);
    else
      groups.push_back({s.failure->reason, {&s}});
  }
  if (groups.empty()) return {};
  if (ending.cause != Cause::loss) {
    ending.cause = Cause::failure;
    if (groups.size() == 1 && groups[0].ranks.size() == 1 && members > 1)
      ending.end.rank = groups[0].ranks[0]->rank;
  }
  std::vector<std::string> texts;
  for (const Group& group : groups) {
    if (texts.size() == kNamed) {
      texts.push_back(fmt::format("and {} more reasons", groups.size() - kNamed));
      break;
    }
    if (group.ranks.size() == members) {
      texts.push_back(group.reason);
    } else if (group.ranks.size() == 1) {
      texts.push_back(fmt::format("{}: {}", group.ranks[0]->name(), group.reason));
    } else {
      texts.push_back(fmt::format("{} and {} more ranks: {}", group.ranks[0]->name(), group.ranks.size() - 1,
                                  group.reason));
    }
  }
  return join(texts, "; ");
}

std::string Roster::signals() const {
  std::vector<std::string> names;
  int number = 0;
  size_t members = 0, count = 0;
  for (const State& s : ranks_) {
    members += s.joined && !s.left;
    if (!s.signal) continue;
    number = *s.signal;
    if (++count <= kNamed) names.push_back(s.name());
  }
  const State& first = ranks_.front();
  if (count == members || first.signal)
    return fmt::format("ended by {} while {} was {}", signal_name(number), first.name(),
                       place_of(first.beat));
  return fmt::format("{} ended by {}", join(names, ", "), signal_name(number));
}

Ending Roster::time_out(double now) const {
  std::vector<Standing> standings;
  bool others_wait = true;
  for (const State& s : ranks_) {
    if (!s.watched()) continue;
    const bool silent = s.heard_at <= *asked_ && now - s.heard_at > kSilentAfter;
    standings.push_back({s.rank, silent, s.beat.phase_number, s.beat.iteration, s.beat.activity});
  }
  const std::vector<int> culprits = find_culprits(standings);
  std::vector<std::string> names;
  for (const Standing& s : standings) {
    if (std::find(culprits.begin(), culprits.end(), s.rank) == culprits.end())
      others_wait = others_wait && s.activity != Activity::own_work;
    else if (names.size() < kNamed)
      names.push_back(ranks_[static_cast<size_t>(s.rank)].name());
  }
  if (culprits.size() > kNamed) names.push_back(fmt::format("and {} more", culprits.size() - kNamed));

  const State& first = ranks_[static_cast<size_t>(culprits.front())];
  const bool silent = first.heard_at <= *asked_ && now - first.heard_at > kSilentAfter;
  const bool all = culprits.size() == standings.size();
  std::string who = join(names, ", ");
  if (all && culprits.size() > 1)
    who = fmt::format("all {} ranks, none behind the others, the first of them {}", culprits.size(),
                      first.name());
  std::string text = silent ? fmt::format("{} silent for {:.1f} s, last seen {}", who, now - first.heard_at,
                                          place_of(first.beat))
                            : fmt::format("{} {} for {:.1f} s", who, place_of(first.beat), first.age(now));
  if (!all) text += others_wait ? "; the others wait" : "; the others are further on";
  Ending ending;
  ending.end = {ExitCode::timeout, text, all && culprits.size() > 1 ? -1 : culprits.front()};
  return ending;
}

}  // namespace tt::watchdog
