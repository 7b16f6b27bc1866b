// The unit tests' main: Catch2 v3 brings its own in libCatch2Main.
#if CATCH2_VERSION != 3
#define CATCH_CONFIG_MAIN
#endif
#include "verify/unit/catch.h"
