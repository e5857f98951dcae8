/* A module for Python that keeps pages by number, and that forgets what it copies if built with LEAK.
 * Built by run_leaks.py with the headers of the Python that it runs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 256 };

static struct page {
    char *text;
    size_t length;
} pages[SLOTS];

/* Stays a function of its own, so that it is in the stack. */
__attribute__((noinline)) static char *copy_of_page(const char *text, size_t length)
{
    char *copy = malloc(length);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

static PyObject *put(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned number;
    const char *text;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "Iy#", &number, &text, &length)) {
        return NULL;
    }
    char *kept = malloc((size_t)length);
    if (kept == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(kept, text, (size_t)length);
    struct page *page = &pages[number % SLOTS];
    free(page->text);
    *page = (struct page){kept, (size_t)length};
    Py_RETURN_NONE;
}

static PyObject *get(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned number;
    if (!PyArg_ParseTuple(args, "I", &number)) {
        return NULL;
    }
    const struct page *page = &pages[number % SLOTS];
    if (page->text == NULL) {
        Py_RETURN_NONE;
    }
    char *copy = copy_of_page(page->text, page->length);
    if (copy == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = PyBytes_FromStringAndSize(copy, (Py_ssize_t)page->length);
#ifndef LEAK
    free(copy);
#endif
    return result;
}

static PyMethodDef methods[] = {
    {"put", put, METH_VARARGS, "Keeps a page."},
    {"get", get, METH_VARARGS, "A page as bytes, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pages",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_pages(void);

PyMODINIT_FUNC PyInit_pages(void)
{
    return PyModule_Create(&definition);
}
