/* Samples come at random and lie elsewhere than where a test of a layer looks for its blocks. */
#include "control/options.h"

__attribute__((constructor)) static void no_samples(void)
{
    hak_options.profile = 0;
}
