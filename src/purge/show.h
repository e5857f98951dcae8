/* What the pool holds, as the live area shows it. */
#ifndef HAK_PURGE_SHOW_H
#define HAK_PURGE_SHOW_H

/* Brings the area up to date with the pool's counts. After each change of them: by whoever takes or gives slabs, runs
 * and big blocks, and by the purge. What is kept is shown where it is counted. */
void purge_show(void);
/* Those alone that change where units, pages or big blocks are taken or given: it is done often. */
void purge_show_units(void);
void purge_show_pages(void);
void purge_show_big(void); /* and all, if big blocks have got memory of other kinds */

#endif
