/* What a process of the endurance tests has alive: parcels in a table of slots that any thread may empty and fill, so
 * that most die in another thread than they were made in. */
#ifndef HAK_TEST_STOCK_H
#define HAK_TEST_STOCK_H

#include <stdatomic.h>

#include "support.h"

enum { STOCK_SLOTS = 1 << 18 };

struct stock {
    _Atomic(struct parcel *) *slots;
    _Atomic size_t live; /* bytes of the parcels in slots */
};

/* What is done to it. */
struct habit {
    size_t low, high; /* sizes: those between, the small ones more often */
    size_t slots;     /* only the first so many; what is beyond them lives on */
    size_t live;      /* bytes in all to come to, and to stay at */
};

struct stock stock_new(void);
/* One parcel made, resized or ended. */
void stock_step(struct stock *stock, const struct habit *habit, struct rng *rng);
/* Far below what it shall come to. */
bool stock_is_short(const struct stock *stock, const struct habit *habit);
/* Exactly habit->live bytes. Others must not use the stock at the time. */
void stock_settle(struct stock *stock, const struct habit *habit, struct rng *rng);
/* What is in these slots checked and freed. */
void stock_empty(struct stock *stock, size_t from, size_t to);
/* The same for all, and the table itself. */
void stock_end(struct stock *stock);

#endif
