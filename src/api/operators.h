/* What the files of operator new share: of the C++ library, if the program has one. */
#ifndef HAK_OPERATORS_H
#define HAK_OPERATORS_H

/* std::get_new_handler */
typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));

/* The compiler of the program declares operators new and delete, no header does. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#endif
