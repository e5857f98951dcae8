/* What the pool holds, as the live area shows it. */
#ifndef HAK_PURGE_SHOW_H
#define HAK_PURGE_SHOW_H

/* Brings the area up to date with the pool's counts. After each change of them: by whoever takes, keeps or gives slabs,
 * runs and big blocks, and by the purge. */
void purge_show(void);

#endif
