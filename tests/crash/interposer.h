#ifndef INTERPOSER_H
#define INTERPOSER_H

/* Of sigaction and signal that have come by. */
int calls_seen(void);

#endif
