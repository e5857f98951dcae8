#include "pages/filled.h"

#include "control/options.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "super/huge.h"
#include "super/super.h"

enum {
    MIN_SHARE = 2,     /* of huge_min, for what is filled */
    WITNESS_EVERY = 8, /* granules */
    /* Bytes of a witness: some are missing where runs end and granules do. */
    FILLED_FROM = GRANULE_SIZE / 4 * 3
};

/* Relaxed: each is a guess, and publishes nothing else. */
static struct {
    _Atomic uint32_t turn;
    _Atomic uint32_t granule; /* 0: none, or it has been looked at; the first granule never is */
    _Atomic bool filled;
} witness;

static bool is_large(void)
{
    size_t granules = supers_mapped() + pages_granules();
    return granules << GRANULE_SHIFT >= option(huge_min) / MIN_SHARE;
}

/* Unless it has gone. */
static void look(void)
{
    size_t granule = load_relaxed(&witness.granule);
    store_relaxed(&witness.granule, (uint32_t)0);
    if (granule == 0 || load_relaxed(&super_at(granule)->pages) != SUPER_WITNESS)
        return;
    size_t pages = os_resident_pages(granule_address(granule), GRANULE_SIZE);
    store_relaxed(&witness.filled, pages * hak_region.page_size >= FILLED_FROM);
}

static void set_witness(size_t granule)
{
    super_set_pages(granule, SUPER_WITNESS);
    store_relaxed(&witness.granule, (uint32_t)granule);
}

static bool may_be_huge(size_t granule)
{
    if (!is_large() || pressure_is(PRESSURE_NEAR))
        return false;
    look();
    if (add_relaxed(&witness.turn, 1) % WITNESS_EVERY != 0)
        return load_relaxed(&witness.filled);
    set_witness(granule);
    return false;
}

HAK_COLD bool filled_advise(size_t granule, bool fresh)
{
    if (!option(huge_pages))
        return false;
    if (!fresh || !may_be_huge(granule)) {
        os_advise_huge(granule_address(granule), GRANULE_SIZE, false);
        return false;
    }
    bool huge = huge_advise(granule, true);
    if (huge)
        super_set_pages(granule, SUPER_HUGE);
    return huge;
}
