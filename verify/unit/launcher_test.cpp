#include <cstdlib>
#include <string>
#include <vector>

#include "common/world.h"
#include "verify/unit/catch.h"

namespace {

using tt::detect_launcher;

struct Variable {
  std::string name, value;
};
using Variables = std::vector<Variable>;

// The launcher variables of this test alone; what was set before comes back.
class Environment {
 public:
  explicit Environment(const Variables& set) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "PMIX_RANK", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                             "SLURM_PROCID", "SLURM_JOB_ID", tt::kRelaunchedVariable}) {
      const char* value = std::getenv(name);
      before_.push_back({name, value ? value : ""});
      unsetenv(name);
    }
    for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value.empty())
        unsetenv(name.c_str());
      else
        setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  Variables before_;
};

}  // namespace

TEST_CASE("no launcher") {
  Environment env(Variables{});
  const auto found = detect_launcher();
  REQUIRE(found.name == "none");
  REQUIRE_FALSE(found.rank);
  REQUIRE_FALSE(found.size);
}

TEST_CASE("mpirun, also inside a Slurm step whose variables are those of its daemons") {
  Environment env({{"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_RANK", "3"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_PROCID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "2"}});
  const auto found = detect_launcher();
  REQUIRE(found.name == "mpirun");
  REQUIRE(found.rank == 3);
  REQUIRE(found.size == 4);
}

TEST_CASE("a Slurm step") {
  Environment env({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}});
  const auto found = detect_launcher();
  REQUIRE(found.name == "srun");
  REQUIRE(found.rank == 1);
  REQUIRE(found.size == 2);
  REQUIRE(found.described() == "the Slurm step has 2 tasks");
}

TEST_CASE("a batch script or an interactive shell is no launcher, whatever the job has asked for") {
  const std::string step = GENERATE("", "batch", "4294967291", "4294967290");
  Variables variables = {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}};
  if (!step.empty()) variables.push_back({"SLURM_STEP_ID", step});
  Environment env(variables);
  REQUIRE(detect_launcher().name == "none");
}

TEST_CASE("other process managers; numbers that are none are not believed") {
  SECTION("hydra inside a Slurm step") {
    Environment env({{"PMI_SIZE", "8"},
                     {"PMI_RANK", "5"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"}});
    REQUIRE(detect_launcher().name == "pmi");
    REQUIRE(detect_launcher().rank == 5);
    REQUIRE(detect_launcher().size == 8);
  }
  SECTION("pmix alone does not tell the size") {
    Environment env(Variables{{"PMIX_RANK", "2"}});
    REQUIRE(detect_launcher().name == "pmi");
    REQUIRE_FALSE(detect_launcher().size);
  }
  SECTION("nonsense") {
    Environment env(
        {{"OMPI_COMM_WORLD_SIZE", "4x"}, {"PMI_SIZE", "-3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", ""}});
    REQUIRE(detect_launcher().name == "none");
  }
}

TEST_CASE("the ranks that -g started know it") {
  Environment env(Variables{{tt::kRelaunchedVariable, "4"}});
  REQUIRE(tt::is_relaunched(4));
  REQUIRE_FALSE(tt::is_relaunched(2));
}
