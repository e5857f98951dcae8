#include "model.h"

#define SCENARIO(name) extern const struct model_scenario name;
#include "scenarios.def"
#undef SCENARIO

#define SCENARIO(name) &name,
extern const struct model_scenario *const model_scenarios[];
const struct model_scenario *const model_scenarios[] = {
#include "scenarios.def"
    NULL,
};
