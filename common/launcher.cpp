// How this process was started, and starting several by ourselves.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/world.h"

namespace tt {
namespace {

std::optional<int64_t> env_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

std::optional<int> as_int(const std::optional<int64_t>& value) {
  if (!value || *value < 0 || *value > INT32_MAX) return std::nullopt;
  return static_cast<int>(*value);
}

// A batch script and an interactive shell are steps as well, with reserved ids (0xfffffff0 and up, or a
// word): there SLURM_NTASKS tells what the job may start, not what was started.
bool in_slurm_step() {
  constexpr int64_t kFirstReservedStep = 0xfffffff0;
  const auto step = env_number("SLURM_STEP_ID");
  return step && *step >= 0 && *step < kFirstReservedStep && env_number("SLURM_PROCID");
}

int allowed_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

Launcher detect_launcher() {
  // Innermost first: mpirun may itself run inside a Slurm step, whose variables then speak of mpirun's
  // daemons.
  if (const auto size = as_int(env_number("OMPI_COMM_WORLD_SIZE")))
    return {"mpirun", as_int(env_number("OMPI_COMM_WORLD_RANK")), size};
  if (in_slurm_step()) {
    const auto pmi = as_int(env_number("PMI_SIZE"));
    const auto step = as_int(env_number("SLURM_STEP_NUM_TASKS"));
    const auto tasks = step ? step : as_int(env_number("SLURM_NTASKS"));
    if (!pmi || pmi == tasks) return {"srun", as_int(env_number("SLURM_PROCID")), tasks};
  }
  if (const auto size = as_int(env_number("PMI_SIZE"))) return {"pmi", as_int(env_number("PMI_RANK")), size};
  if (const auto rank = as_int(env_number("PMIX_RANK"))) return {"pmi", rank, std::nullopt};
  return {"none", std::nullopt, std::nullopt};
}

std::string Launcher::described() const {
  const std::string tasks = size ? std::to_string(*size) : std::string("an unknown number of");
  return name == "srun" ? "the Slurm step has " + tasks + " tasks"
                        : name + " started " + tasks + " processes";
}

void relaunch_under_mpirun(int ranks, char** argv) {
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(ranks)};
#ifdef OPEN_MPI
  // This node only, even inside a job of several; and no binding of mpirun's: the ranks bind themselves.
  const auto more = {std::string("--host"), "localhost:" + std::to_string(ranks),
                     std::string("--oversubscribe"), std::string("--bind-to"), std::string("none")};
  words.insert(words.end(), more);
  // With no core to spare a rank that waits must not keep the others from theirs.
  if (ranks >= allowed_cpus()) words.insert(words.end(), {"--mca", "mpi_yield_when_idle", "1"});
  // Open MPI 4 refuses to start even local ranks where it finds no ssh; none is needed for this node.
  setenv("OMPI_MCA_plm_rsh_agent", "false", 0);
  if (geteuid() == 0) {  // the user asked for this run as root; mpirun would refuse
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    setenv("PRTE_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
#endif
  setenv(kRelaunchedVariable, std::to_string(ranks).c_str(), 1);
  std::vector<char*> args;
  for (std::string& word : words) args.push_back(word.data());
  for (char** arg = argv; *arg != nullptr; ++arg) args.push_back(*arg);
  args.push_back(nullptr);
  execvp("mpirun", args.data());
  throw EnvironmentError("-g " + std::to_string(ranks) +
                         ": cannot start mpirun from PATH: " + std::strerror(errno) +
                         "; start the ranks yourself (mpirun or srun --mpi=pmix, one rank per GPU)");
}

bool is_relaunched(int ranks) {
  return env_number(kRelaunchedVariable) == ranks;
}

}  // namespace tt
